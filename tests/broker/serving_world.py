"""A simulated process in which a new broker can replace the current one (`broker.process.serving`)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, cast

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.connection import Connection
from ottla.broker.process.serving import Serving
from ottla.broker.shared.shared_server import Host
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.simulation.broker import DATA_DIR
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem


class ServingWorld:
    """A process with a broker in a simulated world. Clients connect to the current broker. A test must call `close` or `kill`."""

    def __init__(self, fs: MemoryFilesystem | None = None, settings: dict[str, str] | None = None, *, seed: int = 1) -> None:
        self.fs = MemoryFilesystem() if fs is None else fs
        self.env = SimulatedEnv(self.fs, random.Random(seed), START_MS)
        self._loop = asyncio.new_event_loop()
        env: Any = self.env
        config = BrokerConfig({"log.dirs": DATA_DIR, **(settings or {})})
        self.serving = Serving(
            env, lambda inherited, give_up: BrokerServer(env, config, host=Host(inherited=inherited, give_up=give_up))
        )
        try:
            self.run(self.serving.start())
        except BaseException:
            self.kill()
            raise

    @property
    def broker(self) -> BrokerServer:
        return self.serving.broker

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self._loop.run_until_complete(work)
        self.env.settle()

    def connection(self) -> Connection:
        return Connection(self.broker, "PLAINTEXT")

    def connect(self) -> SimulatedClient:
        return SimulatedClient(cast(Any, self), "simulated")

    def close(self) -> None:
        self.run(self.serving.stop())
        assert not self.broker.unexpected_errors
        self._loop.close()

    def kill(self) -> None:
        """Kill the process. Its file lock is released, as the operating system would do."""
        self.fs.crashed()
        self._loop.close()


def make_topic(client: SimulatedClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    assert not client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000)).topics[0].error_code


def topics(client: SimulatedClient) -> set[str]:
    return {topic.name for topic in client.call(MetadataRequest(topics=None)).topics}
