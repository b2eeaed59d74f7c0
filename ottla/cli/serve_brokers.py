"""``ottla serve --brokers N``: several brokers and their controller, each in its own process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig
from ottla.brokers.plan import PlannedNode, plan, prepare
from ottla.cli.steering import MACHINE, steering
from ottla.process import OwnerProcess, print_error

if TYPE_CHECKING:
    from ottla.broker.process.controller_main import OpenControlApi


def serve_brokers(
    config: BrokerConfig,
    broker_count: int,
    features: Mapping[str, int],
    *,
    ready_file: Path | None,
    as_json: bool,
    log_level: str,
    owner: OwnerProcess | None,
    takes_commands: bool,
    faults_file: Path | None,
    warnings: Mapping[str, str | None],
    controller_port: int,
    restarts_nodes: bool,
    first_users: Sequence[FirstUser] = (),
) -> int:
    """Run until SIGTERM or SIGINT and return the exit code. Raises `ConfigError` and `Refused`.

    The controller creates ``first_users`` before brokers connect, and logs ``warnings``, which map settings without effect to the
    setting that was probably meant. Each broker begins with the faults of ``faults_file``, and has its own control API if enabled.
    """
    from ottla.broker.loop.env import free_port, is_free_port, random_uuid
    from ottla.broker.process import controller_main, main
    from ottla.broker.process.ready_file import ReadyFile
    from ottla.brokers.kept_ports import KeptPorts
    from ottla.brokers.parent import ClusterProcesses, Parent
    from ottla.storage.identity import DirectoryError
    from ottla.storage.real_filesystem import RealFilesystem

    _import_shared_modules(config)
    has_control_api = config.settings.has_control_server
    open_control_api = _control_api_of_controller(config)
    # Report an invalid file of faults before starting a process.
    steering(MACHINE, faults_file, None, has_control_api=has_control_api)
    fs = RealFilesystem()
    ports = KeptPorts(fs, config.settings.log_dirs, free_port=free_port, is_free=is_free_port)
    nodes = plan(config, broker_count, ports.port, controller_port)
    ready = ReadyFile(ready_file)
    ready.check()
    try:
        cluster_id = prepare(fs, config.settings.log_dirs, nodes, random_uuid)
        ports.save()
    except (DirectoryError, OSError) as error:
        print_error(f"ottla: {error}")
        return 1

    def run_node(node: PlannedNode, parent: OwnerProcess) -> int:
        if node.is_controller:
            return controller_main.run(
                node.config,
                features,
                as_json=as_json,
                log_level=log_level,
                owner=parent,
                node=node.name,
                warnings=warnings,
                first_users=first_users,
                open_control_api=open_control_api,
            )
        has_registry = node.config.settings.ottla_schema_registry_port is not None
        steered = steering(MACHINE, faults_file, parent, has_control_api=has_control_api, has_registry=has_registry)
        return main.run(node.config, {}, as_json=as_json, log_level=log_level, steering=steered, node=node.name)

    cluster = ClusterProcesses(
        nodes={node.node_id: node for node in nodes},
        cluster_id=cluster_id,
        data_dir=fs.absolute(config.settings.log_dirs),
        is_terminal=sys.stdout.isatty(),
        restarts_nodes=restarts_nodes,
    )
    return Parent(cluster, run_node, ready_file=ready, takes_commands=takes_commands).run(owner)


def _import_shared_modules(config: BrokerConfig) -> None:
    """Import modules that all processes need before the fork, so that the processes share their memory."""
    from ottla.broker.membership import joined_metadata  # noqa: F401
    from ottla.broker.transports import coordinators  # noqa: F401

    if config.settings.ottla_console:
        from ottla.console import site  # noqa: F401


def _control_api_of_controller(config: BrokerConfig) -> OpenControlApi | None:
    """Return the function that opens the control API in the controller's process; None if it is disabled."""
    if not config.settings.has_control_server:
        return None
    from ottla.broker.network.listener import advertised_hosts
    from ottla.control.controller_api import ControllerApi

    return partial(ControllerApi, own_names=advertised_hosts(config.settings))
