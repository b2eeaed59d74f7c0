"""Runs the controller of a cluster in this process until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.controller.server import ControllerServer
from ottla.broker.loop.env import RealEnv, process_id
from ottla.broker.process.optional_parts import ControlEndpoint
from ottla.broker.process.ready_file import ReadyFile
from ottla.broker.process.running import (
    Owner,
    remove_users_file,
    report_bugs_of_callbacks,
    report_ready,
    run_process,
    serve_metrics,
    stop_at_signals,
)
from ottla.broker.shared.shared_server import Host

OpenControlApi = Callable[[ControllerServer], ControlEndpoint]


def _report_ready(controller: ControllerServer, ready_file: ReadyFile, control_api: ControlEndpoint | None) -> None:
    ready = {
        "event": "ready",
        "controller": controller.addresses.bootstrap,
        "listening": controller.addresses.bound,
        "pid": process_id(),
        "cluster_id": controller.cluster_id,
        "data_dir": controller.directory.absolute_path,
        **({} if controller.metrics_url is None else {"metrics": controller.metrics_url}),
        **({} if control_api is None else {"control": {"url": control_api.url, "token": control_api.token}}),
    }
    for_people = (
        f"ottla's controller listens for brokers at {controller.addresses.bootstrap}\n"
        f"its data is in {controller.directory.absolute_path}\n"
        f"Ctrl-C, or kill {process_id()}, stops it; its data is kept"
    )
    report_ready(ready, ready_file, for_people, is_secret=control_api is not None)


async def _serve(
    config: BrokerConfig,
    features: Mapping[str, int],
    cluster_id: str | None,
    ready_file: ReadyFile,
    owner: Owner | None,
    first_users: Sequence[FirstUser],
    remove_when_ready: Path | None,
    open_control_api: OpenControlApi | None,
) -> None:
    ready_file.check()
    host = Host(serve_metrics=serve_metrics)
    controller = ControllerServer(RealEnv(), config, features, cluster_id=cluster_id, host=host, first_users=first_users)
    controller.directory.acquire()
    # Remove the ready file of a killed controller. This process has the directory's lock, so no running controller uses the file.
    ready_file.remove()
    stop_wanted = asyncio.Event()
    report_bugs_of_callbacks(lambda: controller.lifecycle)
    stop_at_signals(stop_wanted, owner)
    control_api = None if open_control_api is None else open_control_api(controller)
    await controller.start()
    gc.freeze()
    try:
        if control_api is not None:
            control_api.serve()
        remove_users_file(controller.env.fs, controller.directory.path, remove_when_ready)
        _report_ready(controller, ready_file, control_api)
        await stop_wanted.wait()
    finally:
        ready_file.remove()
        if control_api is not None:
            control_api.close()
        await controller.stop()


def run(
    config: BrokerConfig,
    features: Mapping[str, int],
    *,
    cluster_id: str | None = None,
    ready_file: Path | None = None,
    as_json: bool = True,
    log_level: str = "info",
    warnings: Mapping[str, str | None] | None = None,
    owner: Owner | None = None,
    node: str | None = None,
    first_users: Sequence[FirstUser] = (),
    remove_when_ready: Path | None = None,
    open_control_api: OpenControlApi | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code of `run_process`.

    ``cluster_id`` is written into a new directory; if it is None, an id is generated. A used directory keeps its own id.
    ``first_users`` are created at the start, and their file ``remove_when_ready`` is removed after it. ``open_control_api`` opens
    the control API, by default none.
    """
    return run_process(
        lambda: _serve(
            config, features, cluster_id, ReadyFile(ready_file), owner, first_users, remove_when_ready, open_control_api
        ),
        as_json=as_json,
        log_level=log_level,
        warnings=warnings or {},
        owner=owner,
        node=node,
    )
