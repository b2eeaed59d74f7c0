"""Runs one broker in this process until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from ottla.broker.broker import BrokerServer
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import RealEnv, process_id
from ottla.broker.process.optional_parts import ControlEndpoint, OptionalParts, RegistryEndpoint
from ottla.broker.process.ready_file import ReadyFile
from ottla.broker.process.running import (
    remove_users_file,
    report_bugs_of_callbacks,
    report_ready,
    run_process,
    serve_metrics,
    stop_at_signals,
)
from ottla.broker.process.serving import Serving
from ottla.broker.shared.shared_server import GiveUp, Host, Inherited

if TYPE_CHECKING:
    from ottla.broker.loop.local_sockets import LocalSocket

log = structlog.get_logger("broker")
NO_PARTS = OptionalParts()


def _report_ready(
    broker: BrokerServer,
    ready_file: ReadyFile,
    control_api: ControlEndpoint | None,
    registry: RegistryEndpoint | None,
    started_lines: Sequence[str],
    local: LocalSocket | None,
) -> None:
    ready = {
        "event": "ready",
        "bootstrap": broker.bootstrap,
        "listening": broker.addresses.bound,
        "pid": process_id(),
        "cluster_id": broker.cluster_id,
        "data_dir": broker.directory.absolute_path,
    }
    if broker.metrics_url is not None:
        ready["metrics"] = broker.metrics_url
    if local is not None:
        ready["local"] = local.path
    if control_api is not None:
        ready["control"] = {"url": control_api.url, "token": control_api.token}
        if control_api.pages_url is not None:
            ready["console"] = control_api.pages_url
    if registry is not None:
        ready["schema_registry"] = {"url": registry.url} | ({} if registry.token is None else {"token": registry.token})
    is_secret = control_api is not None or (registry is not None and registry.token is not None)
    report_ready(ready, ready_file, _for_people(broker, control_api, registry), *started_lines, is_secret=is_secret)


def _for_people(broker: BrokerServer, control_api: ControlEndpoint | None, registry: RegistryEndpoint | None) -> str:
    lines = [f"ottla listens at {broker.bootstrap}", f"its data is in {broker.directory.absolute_path}"]
    if broker.metrics_url is not None:
        lines.append(f"its metrics are at {broker.metrics_url}")
    if control_api is not None:
        lines.append(f"its control API is at {control_api.url}, with the token {control_api.token}")
        if control_api.pages_url is not None:
            lines.append(f"its console is at {control_api.pages_url}")
    if registry is not None:
        password = "" if registry.token is None else f", with the password {registry.token} for any user"
        lines.append(f"its schema registry is at {registry.url}{password}")
    return "\n".join([*lines, f"Ctrl-C, or kill {process_id()}, stops it; its data is kept"])


async def _listen_locally(serving: Serving, ready_file: ReadyFile) -> LocalSocket | None:
    """Open a Unix socket beside the ready file for ``ottla health``, if clients of the first listener need credentials."""
    if ready_file.path is None or not serving.broker.security.needs_credentials:
        return None
    # Imported here, because most brokers need no local socket.
    from ottla.broker.loop.local_sockets import listen_locally

    path = f"{ready_file.path.absolute()}.sock"
    try:
        return await listen_locally(path, serving.local_connection)
    except OSError as error:
        hint = "ottla health needs --command-config for this broker"
        log.warning("local_socket_failed", path=path, reason=error.strerror or str(error), hint=hint)
        return None


async def _serve(
    config: BrokerConfig,
    features: Mapping[str, int],
    ready_file: ReadyFile,
    first_topics: Sequence[FirstTopic] = (),
    parts: OptionalParts = NO_PARTS,
    started_lines: Sequence[str] = (),
    first_users: Sequence[FirstUser] = (),
    remove_when_ready: Path | None = None,
) -> None:
    ready_file.check()
    env = RealEnv(parts.clock)

    def new_broker(inherited: Inherited | None, give_up: GiveUp) -> BrokerServer:
        host = Host(
            interception=parts.interception,
            transaction_listener=parts.transaction_listener,
            serve_metrics=serve_metrics,
            inherited=inherited,
            give_up=give_up,
        )
        return BrokerServer(env, config, features, host=host, first_topics=first_topics, first_users=first_users)

    serving = Serving(env, new_broker)
    serving.broker.directory.acquire()
    # Remove the ready file of a killed broker. This broker has the directory's lock, so no running broker uses the file.
    ready_file.remove()
    report_bugs_of_callbacks(lambda: serving.broker.lifecycle)
    stop_at_signals(serving.stop_wanted, parts.owner)
    # Open the control API before the broker starts, so that a busy port is found before anything was started or logged.
    control_api = None if parts.open_control_api is None else parts.open_control_api(serving)
    registry = None if parts.open_schema_registry is None else parts.open_schema_registry(serving)
    if not await _started(serving):
        return
    # The objects that the start has created live as long as the process, so the garbage collector need not traverse them.
    gc.freeze()
    local = await _listen_locally(serving, ready_file)
    try:
        if control_api is not None:
            control_api.serve()
        if registry is not None:
            registry.serve()
        remove_users_file(env.fs, serving.broker.directory.path, remove_when_ready)
        _report_ready(serving.broker, ready_file, control_api, registry, started_lines, local)
        await serving.stop_wanted.wait()
    finally:
        if local is not None:
            local.close()
        if control_api is not None:
            control_api.close()
        if registry is not None:
            await asyncio.get_running_loop().run_in_executor(None, registry.close)
        ready_file.remove()
        await serving.stop()
    failure = serving.failure or serving.given_up
    if failure is not None:
        raise failure


async def _started(serving: Serving) -> bool:
    """Start the broker. Returns False if the process is stopped first, for example while a broker waits for its controller."""
    starting, stopping = asyncio.ensure_future(serving.start()), asyncio.ensure_future(serving.stop_wanted.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        return False
    await starting
    return True


def run(
    config: BrokerConfig,
    features: Mapping[str, int],
    *,
    ready_file: Path | None = None,
    as_json: bool = True,
    log_level: str = "info",
    warnings: Mapping[str, str | None] | None = None,
    first_topics: Sequence[FirstTopic] = (),
    first_users: Sequence[FirstUser] = (),
    remove_when_ready: Path | None = None,
    parts: OptionalParts = NO_PARTS,
    started_lines: Sequence[str] = (),
    node: str | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0 after a clean stop, 1 if the broker could not start.

    ``warnings`` maps settings without effect to the setting that was probably meant. ``first_topics`` and ``first_users`` are
    created at the start, and the users' file ``remove_when_ready`` is removed after it. ``started_lines`` are printed once the
    broker is ready, for programs that wait for Kafka's log lines (`ottla.container.image`). ``node``: see `run_process`.
    """
    return run_process(
        lambda: _serve(config, features, ReadyFile(ready_file), first_topics, parts, started_lines, first_users, remove_when_ready),
        as_json=as_json,
        log_level=log_level,
        warnings=warnings or {},
        owner=parts.owner,
        node=node,
        begin=parts.begin,
    )
