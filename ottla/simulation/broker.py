"""A broker without sockets, disk or real clock: requests are passed as bytes, and time only passes when a test advances it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.hooks.interception import Interception
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.network.connection import Connection
from ottla.broker.network.dispatch import AuthenticatingClient, Dispatcher, Secured
from ottla.broker.shared.shared_server import Host
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.security.principal import USER, KafkaPrincipal
from ottla.simulation.client import SimulatedClient
from ottla.simulation.coroutines import run
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.filesystem import Filesystem

DATA_DIR = "/data"


class AuthenticatedUser:
    """Makes a connection authenticated as ``user`` from its beginning (`dispatch.Secured`)."""

    def __init__(self, broker: BrokerServer, user: str) -> None:
        self._broker = broker
        self._principal = KafkaPrincipal(USER, user)

    def dispatcher(self, connection: AuthenticatingClient, limit_frames: Callable[[int], None]) -> Dispatcher:
        return Dispatcher(self._broker, "PLAINTEXT", connection.as_client, self._principal)


class SimulatedBroker:
    """A broker in this process that can be stopped, killed, and restarted with the same files."""

    env_type = SimulatedEnv

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        features: dict[str, int] | None = None,
        *,
        fs: Filesystem | None = None,
        seed: int = 1,
        now_ms: int = START_MS,
        interception: Interception | None = None,
        transaction_listener: TransactionListener | None = None,
    ) -> None:
        self._settings = {"log.dirs": DATA_DIR, **(settings or {})}
        self._features = features or {}
        self.interception = interception
        self.transaction_listener = transaction_listener
        self.fs: Filesystem = MemoryFilesystem() if fs is None else fs
        self._rng = random.Random(seed)
        self.env = self.env_type(self.fs, self._rng, now_ms)
        self.bugs = 0

    def start(self) -> SimulatedBroker:
        self.env = self.env_type(self.fs, self._rng, self.env.steady_ms() + 5)
        self.broker = BrokerServer(
            cast(Any, self.env),
            BrokerConfig(self._settings),
            self._features,
            host=Host(interception=self.interception, transaction_listener=self.transaction_listener),
        )
        run(self.broker.start(), self.env)
        self.env.settle()
        return self

    def with_coordinators(self) -> SimulatedBroker:
        """Create the internal topics of both coordinators, which otherwise the first FindCoordinator request creates."""
        for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            self.broker.cluster.ensure_internal(topic)
        return self

    def stop(self) -> None:
        run(self.broker.stop(), self.env)
        self._gone()

    def kill(self) -> None:
        crashed: Callable[[], None] | None = getattr(self.fs, "crashed", None)
        if crashed is not None:
            crashed()
        else:
            # Simulate the operating system, which closes a killed process's files and releases its lock.
            self.broker.directory.abandon()
        self._gone()

    def _gone(self) -> None:
        # The next start creates another environment, so timers and coroutines of the ended broker never run again.
        self.broker.stepping.stop()
        self.bugs += self.broker.unexpected_errors

    def restart(self, *, kill: bool = False) -> SimulatedBroker:
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def close(self) -> None:
        self.stop()

    def abandon(self) -> None:
        """Kill the broker without a restart."""
        self.kill()

    def connection(self, secured: Secured | None = None) -> Connection:
        return Connection(self.broker, "PLAINTEXT", secured)

    def connect(self, client_id: str = "simulated") -> SimulatedClient:
        return SimulatedClient(self, client_id)

    def connect_as(self, user: str, client_id: str = "simulated") -> SimulatedClient:
        """Return a client that has authenticated as ``User:user``."""
        return SimulatedClient(self, client_id, self.connection(AuthenticatedUser(self.broker, user)))

    def sleep(self, ms: float) -> None:
        self.env.advance(ms)

    def now_ms(self) -> int:
        return self.env.now_ms()
