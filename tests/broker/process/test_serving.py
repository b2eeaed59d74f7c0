"""A broker is replaced by a new broker in the same process, which keeps only some of the old broker's state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.loop.logs import LOG_LEVELS
from ottla.broker.metadata.metadata_log import LocalMetadataLog
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.simulation.client import Closed, SimulatedClient
from ottla.storage.identity import DirectoryError
from tests.broker.serving_world import ServingWorld, make_topic, topics
from tests.broker.share_world import produce


@pytest.fixture
def world() -> Iterator[ServingWorld]:
    world = ServingWorld()
    yield world
    world.close()


def producer_id(client: SimulatedClient, transactional_id: str | None = None) -> int:
    if transactional_id is not None:
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]))
    answer = client.call(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000))
    assert not answer.error_code
    given: int = answer.producer_id
    return given


def test_broker_reset_removes_everything_except_the_cluster_id(world: ServingWorld) -> None:
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
    assert producer_id(client, "shop") > before[1], "producer ids of the old broker are not allocated again"
    make_topic(client, "t")
    assert produce(client, 1) == 0


def test_work_of_the_previous_broker_does_not_continue_after_a_reset(world: ServingWorld) -> None:
    """The old broker's timers still fire, and its clients are disconnected. Neither may write into the new broker's files."""
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


def test_data_snapshot_can_be_restored_repeatedly(world: ServingWorld) -> None:
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
    with pytest.raises(DirectoryError, match="/kept already exists"):
        world.run(world.serving.snapshot("/kept"))
    assert topics(world.connect()) == {"t"}


def test_broker_process_ends_when_no_broker_can_start_after_a_reset(world: ServingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LocalMetadataLog, "load", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            world.run(world.serving.reset())
    assert world.serving.stop_wanted.is_set()
    assert isinstance(world.serving.failure, ZeroDivisionError)
    with pytest.raises(DirectoryError, match="the broker is stopping"):
        world.run(world.serving.reset())


def test_broker_reset_restores_log_levels(world: ServingWorld) -> None:
    LOG_LEVELS.begin_anew("ERROR")
    try:
        LOG_LEVELS.set("disk", "DEBUG")
        LOG_LEVELS.set("root", "DEBUG")
        world.run(world.serving.reset())
        assert (LOG_LEVELS.of("disk"), LOG_LEVELS.of("root")) == ("ERROR", "ERROR")
    finally:
        LOG_LEVELS.begin_anew("INFO")
