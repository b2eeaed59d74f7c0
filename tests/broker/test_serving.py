"""Another broker in the place of the one before: what it has of it, and what not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import pytest

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.logs import LOG_LEVELS
from ottla.broker.network.connection import Connection
from ottla.broker.serving import Serving
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.simulation.broker import DATA_DIR
from ottla.simulation.client import Closed, SimulatedClient
from ottla.simulation.memory_filesystem import MemoryFile
from ottla.storage.identity import DirectoryError
from tests.broker.share_world import produce
from tests.support.world import LoopWorld


class ServingWorld(LoopWorld):
    """A process that serves, in a simulated world; clients talk to the broker of the moment."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        config = BrokerConfig({"log.dirs": DATA_DIR})
        self.serving = Serving(self.env, lambda inherited: BrokerServer(self.env, config, inherited=inherited))
        self.run(self.serving.start())

    @property
    def broker(self) -> BrokerServer:
        return self.serving.broker

    def run(self, doing: Coroutine[Any, Any, None]) -> None:
        self._loop.run_until_complete(doing)
        self.env.settle()

    def connection(self) -> Connection:
        return Connection(self.broker, "PLAINTEXT")

    def connect(self) -> SimulatedClient:
        return SimulatedClient(cast(Any, self), "simulated")

    def close(self) -> None:
        self.run(self.serving.stop())
        assert not self.broker.unexpected_errors
        self._loop.close()


@pytest.fixture
def world() -> Iterator[ServingWorld]:
    world = ServingWorld()
    yield world
    world.close()


def make_topic(client: SimulatedClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    assert not client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000)).topics[0].error_code


def topics(client: SimulatedClient) -> set[str]:
    return {topic.name for topic in client.call(MetadataRequest(topics=None)).topics}


def producer_id(client: SimulatedClient, transactional_id: str | None = None) -> int:
    if transactional_id is not None:
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]))
    answer = client.call(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000))
    assert not answer.error_code
    given: int = answer.producer_id
    return given


def test_after_a_reset_all_is_gone_but_the_cluster(world: ServingWorld) -> None:
    client = world.connect()
    make_topic(client, "t")
    produce(client, 3)
    before = world.broker.cluster_id, producer_id(client, "shop")
    world.run(world.serving.reset())
    with pytest.raises(Closed):
        topics(client)
    client = world.connect()
    assert topics(client) == set()
    assert world.broker.cluster_id == before[0]
    assert producer_id(client, "shop") > before[1], "a producer of before is nobody else's"
    make_topic(client, "t")
    assert produce(client, 1) == 0


def test_work_of_the_previous_broker_does_not_continue(world: ServingWorld) -> None:
    """Its timers fire later, and its clients are cut off; neither may write into its successor's files."""
    client = world.connect()
    make_topic(client, "t")
    producer_id(client, "shop")
    world.run(world.serving.reset())
    before = {path: bytes(content) for path, content in world.fs.files.items()}
    client.close()
    housekeeping = [world.serving.broker.housekeeping]
    for part in housekeeping:
        part.stop()
    world.env.advance(3_600_000)
    assert {path: bytes(content) for path, content in world.fs.files.items()} == before


def test_snapshots(world: ServingWorld) -> None:
    client = world.connect()
    make_topic(client, "t")
    produce(client, 3)
    world.run(world.serving.snapshot("/kept"))
    for _ in range(2):
        client = world.connect()
        make_topic(client, "u")
        assert produce(client, 1) == 3
        world.run(world.serving.restore("/kept"))
        assert topics(world.connect()) == {"t"}
    with pytest.raises(DirectoryError, match="/kept exists"):
        world.run(world.serving.snapshot("/kept"))
    assert topics(world.connect()) == {"t"}


def test_a_snapshot_for_which_there_is_no_room_changes_nothing(world: ServingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = world.connect()
    make_topic(client, "t")
    opened = world.fs.open

    def open_some(path: str) -> MemoryFile:
        if path.startswith("/kept/t-"):
            raise OSError(28, "No space left on device")
        return opened(path)

    produce(client, 1)
    with monkeypatch.context() as patched:
        patched.setattr(world.fs, "open", open_some)
        with pytest.raises(OSError, match="No space"):
            world.run(world.serving.snapshot("/kept"))
    assert world.fs.is_dir("/kept") is None
    assert produce(world.connect(), 1) == 1


def test_restore_of_an_invalid_snapshot_changes_nothing(world: ServingWorld) -> None:
    client = world.connect()
    make_topic(client, "t")
    with pytest.raises(DirectoryError, match="/nowhere is no snapshot"):
        world.run(world.serving.restore("/nowhere"))
    assert topics(client) == {"t"}


def test_where_no_broker_can_take_the_place_the_process_ends(world: ServingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(world.fs, "unlink", refused)
        with pytest.raises(OSError, match="Read-only"):
            world.run(world.serving.reset())
    assert world.serving.stop_wanted.is_set()
    assert isinstance(world.serving.failure, OSError)


def test_reset_restores_log_levels(world: ServingWorld) -> None:
    LOG_LEVELS.begin_anew("ERROR")
    try:
        LOG_LEVELS.set("disk", "DEBUG")
        LOG_LEVELS.set("root", "DEBUG")
        world.run(world.serving.reset())
        assert (LOG_LEVELS.of("disk"), LOG_LEVELS.of("root")) == ("ERROR", "ERROR")
    finally:
        LOG_LEVELS.begin_anew("INFO")
