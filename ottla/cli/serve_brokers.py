"""``ottla serve --brokers N``: several brokers and their controller, each in its own process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.config.settings import BrokerConfig
from ottla.brokers.plan import PlannedNode, plan, prepare
from ottla.cli.optional_parts import MACHINE, Start, optional_parts
from ottla.process import OwnerProcess, print_error

if TYPE_CHECKING:
    from ottla.broker.process.controller_main import OpenControlApi
    from ottla.broker.process.optional_parts import OptionalParts


def serve_brokers(start: Start, broker_count: int, controller_port: int, *, restarts_nodes: bool, takes_commands: bool) -> int:
    """Run the cluster until SIGTERM or SIGINT and return the exit code. Raises `ConfigError` and `Refused`.

    The controller creates the first users before brokers connect, and logs settings without effect. Each broker begins with the
    faults of ``--faults``, and has its own control API if enabled.
    """
    from ottla.broker.loop.env import free_port, is_free_port, random_uuid
    from ottla.broker.process.ready_file import ReadyFile
    from ottla.brokers.kept_ports import KeptPorts
    from ottla.brokers.parent import ClusterProcesses, Parent
    from ottla.storage.identity import DirectoryError
    from ottla.storage.real_filesystem import RealFilesystem

    config = start.config
    _import_shared_modules(config)
    run_node = _NodeRun(start=start, open_control_api=_control_api_of_controller(config))
    # Report an invalid file of faults before starting a process.
    run_node.optional_parts(None)
    fs = RealFilesystem()
    ports = KeptPorts(fs, config.settings.log_dirs, free_port=free_port, is_free=is_free_port)
    nodes = plan(config, broker_count, ports.port, controller_port)
    ready = ReadyFile(start.ready_file)
    ready.check()
    try:
        cluster_id = prepare(fs, config.settings.log_dirs, nodes, random_uuid)
        ports.save()
    except (DirectoryError, OSError) as error:
        print_error(f"ottla: {error}")
        return 1

    cluster = ClusterProcesses(
        nodes={node.node_id: node for node in nodes},
        cluster_id=cluster_id,
        data_dir=fs.absolute(config.settings.log_dirs),
        is_terminal=sys.stdout.isatty(),
        restarts_nodes=restarts_nodes,
    )
    return Parent(cluster, run_node, ready_file=ready, takes_commands=takes_commands).run(start.owner)


@dataclass(slots=True, frozen=True, kw_only=True)
class _NodeRun:
    """Runs a node in its own process, after the fork."""

    start: Start
    open_control_api: OpenControlApi | None

    def __call__(self, node: PlannedNode, parent: OwnerProcess) -> int:
        return self._controller(node, parent) if node.is_controller else self._broker(node, parent)

    def _controller(self, node: PlannedNode, parent: OwnerProcess) -> int:
        from ottla.broker.process import controller_main

        return controller_main.run(
            node.config,
            self.start.features,
            as_json=self.start.as_json,
            log_level=self.start.log_level,
            owner=parent,
            node=node.name,
            warnings=self.start.warnings,
            first_users=self.start.first_users,
            open_control_api=self.open_control_api,
        )

    def _broker(self, node: PlannedNode, parent: OwnerProcess) -> int:
        from ottla.broker.process import main

        parts = self.optional_parts(parent, has_registry=node.config.settings.ottla_schema_registry_port is not None)
        return main.run(node.config, {}, as_json=self.start.as_json, log_level=self.start.log_level, parts=parts, node=node.name)

    def optional_parts(self, parent: OwnerProcess | None, *, has_registry: bool = False) -> OptionalParts:
        """Return the control API, first faults and schema registry of a broker. Raises `Refused` for an invalid file of faults."""
        has_control_api = self.start.config.settings.has_control_server
        return optional_parts(MACHINE, self.start.faults_file, parent, has_control_api=has_control_api, has_registry=has_registry)


def _import_shared_modules(config: BrokerConfig) -> None:
    """Import modules that all processes need before the fork, so that the processes share their memory."""
    from ottla.broker.membership import joined_metadata  # noqa: F401
    from ottla.broker.peers import other_coordinators  # noqa: F401
    from ottla.broker.process import controller_main, main  # noqa: F401

    if config.settings.ottla_console:
        from ottla.console import site  # noqa: F401


def _control_api_of_controller(config: BrokerConfig) -> OpenControlApi | None:
    """Return the function that opens the control API in the controller's process; None if it is disabled."""
    if not config.settings.has_control_server:
        return None
    from ottla.broker.network.listener import advertised_hosts
    from ottla.control.controller_api import ControllerApi

    return partial(ControllerApi, own_names=advertised_hosts(config.settings))
