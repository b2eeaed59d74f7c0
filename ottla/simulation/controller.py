"""A controller without sockets, disk or real clock: requests are passed as bytes, and a test advances the time."""

from __future__ import annotations

import random
from typing import Any, cast

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.controller.server import ControllerServer
from ottla.broker.network.connection import Connection
from ottla.simulation.client import SimulatedClient
from ottla.simulation.coroutines import run
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.filesystem import Filesystem

DATA_DIR = "/controller"
LISTENER = "CONTROLLER"
NODE_ID = 3000


class SimulatedController:
    """A controller in this process that can be stopped, killed, and restarted with the same files."""

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        features: dict[str, int] | None = None,
        *,
        fs: Filesystem | None = None,
        seed: int = 1,
    ) -> None:
        own = {
            "process.roles": "controller",
            "node.id": str(NODE_ID),
            "listeners": f"{LISTENER}://127.0.0.1:9093",
            "log.dirs": DATA_DIR,
        }
        self._settings = {**own, **(settings or {})}
        self._features = features or {}
        self.fs: Filesystem = MemoryFilesystem() if fs is None else fs
        self._rng = random.Random(seed)
        self.env = SimulatedEnv(self.fs, self._rng, START_MS)
        self.bugs = 0

    def start(self) -> SimulatedController:
        self.env = SimulatedEnv(self.fs, self._rng, self.env.steady_ms() + 5)
        self.server = ControllerServer(cast(Any, self.env), BrokerConfig(self._settings), self._features)
        run(self.server.start(), self.env)
        self.env.settle()
        return self

    def stop(self) -> None:
        run(self.server.stop(), self.env)
        self.bugs += self.server.lifecycle.unexpected_errors

    def kill(self) -> None:
        self.server.directory.abandon()
        self.bugs += self.server.lifecycle.unexpected_errors

    def restart(self, *, kill: bool = False) -> SimulatedController:
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def close(self) -> None:
        self.stop()

    def connection(self) -> Connection:
        return Connection(self.server, LISTENER)

    def connect(self, client_id: str = "simulated") -> SimulatedClient:
        return SimulatedClient(self, client_id)

    def sleep(self, ms: float) -> None:
        self.env.advance(ms)
