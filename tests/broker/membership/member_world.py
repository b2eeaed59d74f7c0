"""A controller and its brokers in one process and without sockets, in one simulated environment."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.controller.server import ControllerServer
from ottla.broker.network.connection import Connection
from ottla.broker.shared.shared_server import NO_HOST, Host
from ottla.protocol.uuids import uuid_text
from ottla.simulation.broker import AuthenticatedUser
from ottla.simulation.client import SimulatedClient
from ottla.simulation.coroutines import run
from ottla.simulation.env import SimulatedEnv
from ottla.storage.identity import DirectoryIdentity, write_identity
from tests.support.world import LoopWorld

HOST, CONTROLLER_PORT, FIRST_PORT = "127.0.0.1", 9093, 9101
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Member:
    """A running broker, with the interface that `SimulatedClient` needs."""

    def __init__(self, env: SimulatedEnv, server: BrokerServer) -> None:
        self.env = env
        self.server = server

    def connection(self) -> Connection:
        return Connection(self.server, "PLAINTEXT")

    def connect(self) -> SimulatedClient:
        return SimulatedClient(self, "simulated")

    def connect_as(self, user: str) -> SimulatedClient:
        """Return a client that has authenticated as ``User:user``."""
        return SimulatedClient(self, "simulated", Connection(self.server, "PLAINTEXT", AuthenticatedUser(self.server, user)))


class MemberWorld(LoopWorld):
    def __init__(
        self,
        settings: dict[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        *,
        of_all: Mapping[str, str] | None = None,
    ) -> None:
        """``settings`` apply to all brokers, and ``of_all`` to the controller as well. ``files`` has the content, by path, of files
        that exist before the first start.
        """
        super().__init__()
        for path, content in (files or {}).items():
            self.fs.write_file(path, content)
        self._of_all = dict(of_all or {})
        self.settings = self._of_all | (settings or {})
        """Settings that all brokers share, in addition to the settings of each broker."""
        self._formatted = 0
        self.start_controller()

    def start_controller(self) -> None:
        given = {
            "process.roles": "controller",
            "node.id": "3000",
            "listeners": f"CONTROLLER://{HOST}:{CONTROLLER_PORT}",
            "log.dirs": "/controller",
            **self._of_all,
        }
        self.controller = ControllerServer(self.env, BrokerConfig(given), {}, cluster_id=CLUSTER_ID)
        self.run(self.controller.start())

    def settings_of(self, node_id: int) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:{FIRST_PORT + node_id}",
            "log.dirs": f"/broker-{node_id}",
            "controller.quorum.bootstrap.servers": f"{HOST}:{CONTROLLER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "initial.broker.registration.timeout.ms": "30000",
            **self.settings,
        }

    def format(self, node_id: int) -> None:
        """Format a broker's log directory with a new directory id."""
        path = f"/broker-{node_id}"
        self.fs.make_dir(path)
        self._formatted += 1
        directory_id = uuid_text(bytes([node_id, self._formatted]) * 8)
        write_identity(self.fs, path, DirectoryIdentity(cluster_id=CLUSTER_ID, node_id=node_id, directory_id=directory_id))

    def replace_disk(self, node_id: int) -> None:
        self.fs.remove_dir(f"/broker-{node_id}")

    def start(self, node_id: int, host: Host = NO_HOST) -> Member:
        if self.fs.read_file(f"/broker-{node_id}/meta.properties") is None:
            self.format(node_id)
        server = BrokerServer(self.env, BrokerConfig(self.settings_of(node_id)), host=host)
        self.run(server.start())
        return Member(self.env, server)

    def stop(self, member: Member) -> None:
        self.run(member.server.stop())
        self.bugs += member.server.unexpected_errors

    def kill(self, member: Member) -> None:
        """End a broker without a controlled shutdown. Simulated timers would still fire, so its work is stopped first."""
        member.server._end_work()
        member.server.addresses.close()
        member.server.directory.abandon()
        self.bugs += member.server.unexpected_errors

    def close(self) -> None:
        self.run(self.controller.stop())
        self.bugs += self.controller.lifecycle.unexpected_errors

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Let simulated time pass until the coroutine is done."""
        run(work, self.env)

    def sleep(self, ms: float) -> None:
        self.env.advance(ms)
