"""Share state on a simulated broker: it survives a restart and a refused write, and is deleted with its topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.handlers import read_share_group_state
from ottla.coordinator.share_state.batches import StateBatch
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import StateRead, StateSummary, StateWrite
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import SHARE_STATE_TOPIC
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.read_share_group_state import PartitionData, ReadShareGroupStateRequest, ReadStateData
from ottla.protocol.uuids import uuid_text
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.storage.filesystem import Damaged
from tests.support.raw_client import create

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.prune.interval.ms": "5000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "5000",
}
WRITE = StateWrite(0, 0, 0, 5, (StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 2)))
READ = StateRead(0, 0, WRITE.state_batches)


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def broker(disk: FaultyFilesystem) -> Iterator[SimulatedBroker]:
    started = SimulatedBroker(SETTINGS, fs=disk).start()
    yield started
    started.close()
    assert started.bugs == 0


def share(broker: SimulatedBroker, topic: str = "t", group: str = "g", partition: int = 0) -> ShareKey:
    """Return the key of a share partition. The topic and the coordinator's topic are created if they are missing."""
    with broker.connect() as client:
        if topic not in broker.broker.cluster.state.topics:
            create(client, topic, 2)
        topic_id = broker.broker.cluster.state.topics[topic].topic_id
        key = f"{group}:{uuid_text(topic_id)}:{partition}"
        found = client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6).coordinators[0]
        assert (found.error_code, found.port) == (0, 9092)
    return ShareKey(group, topic_id, partition)


def log_starts(broker: SimulatedBroker) -> list[int]:
    return [broker.broker.partitions.get(SHARE_STATE_TOPIC, index).log.log_start_offset for index in range(2)]


def test_share_coordinator_topic_is_created_by_the_first_share_state_request(broker: SimulatedBroker) -> None:
    key = ShareKey("g", bytes(16), 0)
    with pytest.raises(KafkaError) as refused:
        broker.broker.share_states.read(key, 0)
    assert refused.value.code is Code.NOT_COORDINATOR
    share(broker)
    with broker.connect() as client:
        (topic,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=SHARE_STATE_TOPIC)])).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 2)


@pytest.mark.parametrize("kill", [False, True])
def test_share_state_survives_a_restart(broker: SimulatedBroker, kill: bool) -> None:
    key = share(broker)
    states = broker.broker.share_states
    states.initialize(key, 0, 0)
    for _ in range(6):
        states.write(key, WRITE)
    broker.restart(kill=kill)
    assert broker.broker.share_states.read(key, 0) == READ
    with broker.connect() as client:
        asked = ReadStateData(topic_id=key.topic_id, partitions=[PartitionData(partition=0, leader_epoch=0)])
        (topic,) = client.call(ReadShareGroupStateRequest(group_id="g", topics=[asked])).results
    (answer,) = topic.partitions
    batches = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in answer.state_batches]
    assert (answer.error_code, answer.start_offset, batches) == (0, 0, [tuple(batch) for batch in WRITE.state_batches])


def test_refused_write_share_group_state_changes_no_share_state(broker: SimulatedBroker, disk: FaultyFilesystem) -> None:
    key = share(broker)
    states = broker.broker.share_states
    states.initialize(key, 0, 0)
    disk.refuses = lambda number, kind, path: SHARE_STATE_TOPIC in path and kind == "append"
    commands = (
        lambda: states.write(key, WRITE),
        lambda: states.initialize(key, 1, 7),
        lambda: states.read(key, 3),
        lambda: states.delete(key),
    )
    for command in commands:
        with pytest.raises(KafkaError) as refused:
            command()
        assert refused.value.code is Code.NOT_COORDINATOR
        assert states.read_summary(key) == StateSummary(0, 0, 0, 0)
    disk.refuse_nothing()
    for _ in range(2):
        states.write(key, WRITE)
        assert states.read(key, 0) == READ
        broker.restart(kill=True)
        states = broker.broker.share_states


def test_share_state_is_deleted_with_its_topic(broker: SimulatedBroker) -> None:
    kept, gone = share(broker, "kept"), share(broker, "gone")
    for key in (kept, gone):
        broker.broker.share_states.initialize(key, 0, 0)
    broker.broker.cluster.delete_topic("gone")
    broker.sleep(1_000)
    for _ in range(2):
        held = [key for shard in broker.broker.share_states.shards() for key in shard.persisted]
        assert held == [kept]
        broker.restart()
    broker.broker.cluster.delete_topic(SHARE_STATE_TOPIC)
    assert broker.broker.share_states.shards() == []
    with pytest.raises(KafkaError):
        broker.broker.share_states.read(kept, 0)


def test_share_state_log_is_deleted_up_to_the_first_needed_offset(broker: SimulatedBroker) -> None:
    """A rarely written share partition gets a new snapshot, so that its old records can be deleted from the log."""
    busy, cold = share(broker, group="busy"), share(broker, group="cold")
    states = broker.broker.share_states
    for key in (cold, busy):
        states.initialize(key, 0, 0)
    for _ in range(20):
        states.write(busy, WRITE)
    assert log_starts(broker) == [0, 0]
    broker.sleep(20_000)
    assert max(log_starts(broker)) > 15
    broker.restart(kill=True)
    assert broker.broker.share_states.read(busy, 0) == READ
    assert broker.broker.share_states.read(cold, 0) == StateRead(0, 0)


def test_read_of_share_state_is_refused_when_the_share_state_log_is_offline(broker: SimulatedBroker) -> None:
    key = share(broker)
    states = broker.broker.share_states
    states.initialize(key, 0, 7)
    assert states.read_summary(key).start_offset == 7
    log = broker.broker.partitions.get(SHARE_STATE_TOPIC, states.partition_of(key)).log
    broker.broker.partitions.disk_refused(log, Damaged("a.log", "cut"))
    for ask in (lambda: states.read(key, 0), lambda: states.read_summary(key)):
        with pytest.raises(KafkaError):
            ask()


def test_deletion_of_many_topics_removes_their_share_states_in_one_pass(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, names = broker.broker.share_states, [f"t{number}" for number in range(30)]
    for name in names:
        states.initialize(share(broker, name), 0, 7)
    rounds: list[int] = []
    forget = states.forget_topics

    async def counted() -> None:
        rounds.append(1)
        await forget()

    monkeypatch.setattr(states, "forget_topics", counted)
    for name in names:
        broker.broker.cluster.delete_topic(name)
    broker.sleep(1_000)
    assert len(rounds) == 1
    assert not any(shard.persisted for shard in states.shards())


def test_read_share_state_response_has_a_bounded_number_of_batches(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may list the same share partition many times, so its size alone does not bound the response."""
    monkeypatch.setattr(read_share_group_state, "MAX_ANSWERED_BATCHES", 5)
    key = share(broker)
    broker.broker.share_states.initialize(key, 0, 0)
    broker.broker.share_states.write(key, WRITE)
    with broker.connect() as client:
        asked = ReadStateData(topic_id=key.topic_id, partitions=[PartitionData(partition=0, leader_epoch=0)] * 3)
        (topic,) = client.call(ReadShareGroupStateRequest(group_id="g", topics=[asked])).results
    assert [(p.error_code, len(p.state_batches)) for p in topic.partitions] == [(0, 2), (0, 2), (Code.INVALID_REQUEST, 0)]
    assert topic.partitions[2].error_message == "at most 5 state batches are allowed in a response"
