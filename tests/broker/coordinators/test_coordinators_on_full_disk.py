"""A coordinator whose internal topic cannot be created because the disk is full answers with retriable errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.coordinator.group.streams.status import StatusCode
from ottla.protocol.errors import Code
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from tests.broker.coordinators import test_streams_groups
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.coordinators.test_share_groups import alter
from tests.broker.share_world import Sharer, produce, set_group

SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAA:0"


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def broker(disk: FaultyFilesystem) -> Iterator[SimulatedBroker]:
    started = SimulatedBroker(fs=disk).start()
    with started.connect() as client:
        make_topic(client, "t", 1)
    yield started
    disk.refuse_nothing()
    started.close()
    assert started.bugs == 0


def refuse_metadata(disk: FaultyFilesystem) -> None:
    disk.refuses = lambda number, kind, path: kind == "append" and "__cluster_metadata" in path


@pytest.mark.parametrize(("key_type", "key"), [(0, "g"), (1, "x"), (2, SHARE_KEY)])
def test_coordinator_is_unavailable_when_its_topic_cannot_be_created(
    broker: SimulatedBroker, disk: FaultyFilesystem, key_type: int, key: str
) -> None:
    """Apache Kafka creates the coordinator's topic in the background, and clients only get COORDINATOR_NOT_AVAILABLE."""
    client = broker.connect()
    disk.refuse_everything()
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    assert [c.error_code for c in client.call(request).coordinators] == [Code.COORDINATOR_NOT_AVAILABLE]
    if key_type < 2:
        old = client.call(FindCoordinatorRequest(key_type=key_type, key=key), 3)
        assert (old.error_code, old.error_message) == (Code.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    disk.refuse_nothing()
    assert [c.error_code for c in client.call(request).coordinators] == [Code.NONE]


def test_share_group_heartbeat_succeeds_when_states_cannot_be_initialized(broker: SimulatedBroker, disk: FaultyFilesystem) -> None:
    """The heartbeat has already been applied, and share consumers fail on any error that is not a coordinator error."""
    broker.with_coordinators()
    client = broker.connect()
    set_group(client, auto_offset_reset="earliest")
    refuse_metadata(disk)
    a = Sharer(broker, "a")
    answer = a.beat()
    assert (answer.error_code, answer.member_epoch) == (Code.NONE, 2)
    assert a.beat().error_code == Code.NONE
    disk.refuse_nothing()
    for _ in range(3):
        broker.sleep(1_000)
        assert a.beat().error_code == Code.NONE
    produce(client, 1)
    assert a.acquire() == [(0, 0, 1)]


def test_altering_share_offsets_without_a_share_coordinator_fails(broker: SimulatedBroker, disk: FaultyFilesystem) -> None:
    broker.with_coordinators()
    client = broker.connect()
    refuse_metadata(disk)
    answer = alter(client, p0=0)
    assert answer.error_code == Code.NONE
    assert [p.error_code for topic in answer.responses for p in topic.partitions] == [Code.COORDINATOR_NOT_AVAILABLE]
    disk.refuse_nothing()
    assert [p.error_code for topic in alter(client, p0=0).responses for p in topic.partitions] == [Code.NONE]


def test_streams_heartbeat_names_missing_topics(broker: SimulatedBroker, disk: FaultyFilesystem) -> None:
    broker.with_coordinators()
    client = broker.connect()
    refuse_metadata(disk)
    answer = test_streams_groups.beat(client, "a", 0, topology=test_streams_groups.counting())
    assert answer.error_code == Code.NONE
    assert StatusCode.MISSING_INTERNAL_TOPICS in test_streams_groups.statuses(answer)
    disk.refuse_nothing()
    test_streams_groups.beat(client, "a", answer.member_epoch)
    answer = test_streams_groups.beat(client, "a", answer.member_epoch)
    assert StatusCode.MISSING_INTERNAL_TOPICS not in test_streams_groups.statuses(answer)
