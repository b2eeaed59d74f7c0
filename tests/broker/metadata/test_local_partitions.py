"""How a broker applies metadata changes: which replicas it leads, follows, stops and removes, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ottla.broker.metrics.exposition import collect
from ottla.broker.partitions.partitions import NotLeader, Partition
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import NO_LEADER, PartitionRegistration
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages import partition_change_record, remove_topic_record, topic_record
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from tests.broker.metadata.test_several_brokers import registration
from tests.broker.partition_world import make_leader

OWN, OTHER = 1, 2
TOPIC, TOPIC_ID, OFFSETS_ID = "t", b"t" * 16, b"o" * 16


class Recorded:
    """Replaces the replication and a coordinator, and records each call to them."""

    def __init__(self, broker: SimulatedBroker) -> None:
        local = broker.broker.metadata.local_partitions
        self.calls: list[tuple[Any, ...]] = []
        self._inner = local._replicas
        local._replicas = self
        local.coordinators[OFFSETS_TOPIC] = self

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        self.calls.append(("lead", partition.log.name, registration.leader_epoch))
        self._inner.lead(partition, registration)

    def follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        self.calls.append(("follow", partition.log.name, registration.leader))
        self._inner.follow(partition, registration)

    def stop(self, partition: Partition) -> None:
        self.calls.append(("stop", partition.log.name))

    def brokers_changed(self) -> None:
        self.calls.append(("brokers",))

    def elected(self, index: int, leader_epoch: int) -> None:
        self.calls.append(("elected", index, leader_epoch))

    def resigned(self, index: int) -> None:
        self.calls.append(("resigned", index))

    def take(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    """Broker 1 of a cluster of two."""
    made = SimulatedBroker().start()
    change(made, registration(OWN), registration(OTHER))
    yield made
    made.close()
    assert made.bugs == 0


def change(broker: SimulatedBroker, *records: LogRecord) -> None:
    broker.broker.cluster.metadata_log.execute(Result(None, list(records)))
    broker.broker.publisher.publish()


def topic(name: str, topic_id: bytes, *leaders: int, replicas: tuple[int, ...] = (OWN, OTHER)) -> list[LogRecord]:
    made = [metadata_record(topic_record, topic_record.TopicRecord(name=name, topic_id=topic_id))]
    for index, leader in enumerate(leaders):
        partition = PartitionRegistration(replicas=replicas, isr=replicas, leader=leader, leader_epoch=3, partition_epoch=0)
        made.append(partition.to_record(topic_id, index))
    return made


def changed(index: int, topic_id: bytes = TOPIC_ID, **fields: Any) -> LogRecord:
    message = partition_change_record.PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)
    return metadata_record(partition_change_record, message)


def test_replicas_lead_and_follow_according_to_the_metadata(broker: SimulatedBroker) -> None:
    calls = Recorded(broker)
    change(broker, *topic(TOPIC, TOPIC_ID, OWN, OTHER, NO_LEADER))
    assert calls.take() == [("lead", "t-0", 3), ("follow", "t-1", OTHER), ("follow", "t-2", NO_LEADER)]
    partitions = broker.broker.partitions
    assert [partitions.replica(TOPIC, index).is_led for index in range(3)] == [True, False, False]
    assert partitions.get(TOPIC, 0) is partitions.replica(TOPIC, 0)
    with pytest.raises(NotLeader) as refused:
        partitions.get(TOPIC, 1)
    assert (refused.value.leader_id, refused.value.leader_epoch) == (OTHER, 3)
    assert partitions.exists(TOPIC, 1)


def test_broker_creates_no_replicas_of_partitions_of_other_brokers(broker: SimulatedBroker) -> None:
    calls = Recorded(broker)
    change(broker, *topic(TOPIC, TOPIC_ID, OTHER, replicas=(OTHER,)))
    assert calls.take() == []
    with pytest.raises(NotLeader):
        broker.broker.partitions.replica(TOPIC, 0)
    with pytest.raises(KafkaError) as refused:
        broker.broker.partitions.replica(TOPIC, 1)
    assert refused.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_change_resigns_leaderships_before_new_leaderships_begin(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OTHER, OWN))
    calls = Recorded(broker)
    change(broker, changed(0, leader=OWN), changed(1, leader=OTHER))
    assert calls.take() == [("follow", "t-1", OTHER), ("lead", "t-0", 4)]


def test_change_of_in_sync_replicas_reaches_the_leader(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OWN))
    calls = Recorded(broker)
    change(broker, changed(0, isr=[OWN]))
    assert calls.take() == [("lead", "t-0", 3)]


def test_metadata_change_elects_coordinators_after_all_partitions(broker: SimulatedBroker) -> None:
    calls = Recorded(broker)
    change(broker, *topic(OFFSETS_TOPIC, OFFSETS_ID, OWN, OTHER))
    assert calls.take() == [
        ("lead", "__consumer_offsets-0", 3),
        ("follow", "__consumer_offsets-1", OTHER),
        ("elected", 0, 3),
    ]
    change(broker, changed(0, OFFSETS_ID, isr=[OWN]))
    assert calls.take() == [("lead", "__consumer_offsets-0", 3)], "no coordinator is elected"
    change(broker, changed(0, OFFSETS_ID, leader=OTHER), changed(1, OFFSETS_ID, leader=OWN))
    assert [one for one in calls.take() if one[0] in ("elected", "resigned")] == [("resigned", 0), ("elected", 1, 4)]
    change(broker, changed(1, OFFSETS_ID, leader=OWN))
    assert calls.take()[-1] == ("elected", 1, 5), "the coordinator is elected in the next leader epoch"


def test_reassigned_replica_is_stopped_and_removed(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OWN, OTHER), *topic(OFFSETS_TOPIC, OFFSETS_ID, OWN))
    append(broker.broker.partitions.get(TOPIC, 0))
    calls = Recorded(broker)
    change(broker, changed(0, replicas=[OTHER], isr=[OTHER], leader=OTHER))
    change(broker, changed(0, OFFSETS_ID, replicas=[OTHER], isr=[OTHER], leader=OTHER))
    assert calls.take() == [("stop", "t-0"), ("stop", "__consumer_offsets-0"), ("resigned", 0)]
    assert broker.broker.partitions.known(TOPIC, 0) is None
    assert broker.broker.partitions.known(TOPIC, 1) is not None
    assert not broker.env.fs.is_dir(broker.broker.directory.directory_of(TOPIC, 0))


def test_local_replicas_of_a_deleted_topic_are_stopped(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OWN, OTHER))
    calls = Recorded(broker)
    change(broker, *broker.broker.cluster.state.delete_topic(TOPIC).records)
    assert calls.take() == [("stop", "t-0"), ("stop", "t-1")]
    assert list(broker.broker.partitions) == []


def test_metadata_change_applies_broker_registrations_first(broker: SimulatedBroker) -> None:
    calls = Recorded(broker)
    change(broker, *topic(TOPIC, TOPIC_ID, OTHER), registration(OTHER, fenced=True))
    assert calls.take() == [("brokers",), ("follow", "t-0", OTHER)]


def append(partition: Partition) -> None:
    partition.append_own(build_batch([(b"k", b"v")], 1_000))


def test_directory_of_a_replica_that_moved_away_is_set_aside(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OWN, OWN))
    for index in (0, 1):
        append(broker.broker.partitions.get(TOPIC, index))
    broker.broker.cluster.metadata_log.execute(
        Result(None, [changed(0, replicas=[OTHER], isr=[OTHER], leader=OTHER), changed(1, leader=OTHER)])
    )
    broker.restart()
    on_disk = {where for where in broker.broker.directory.partitions_on_disk() if where[0] == TOPIC}
    assert on_disk == {(TOPIC, 1)}
    assert [(p.log.name, p.is_led, p.log.log_end_offset) for p in broker.broker.partitions] == [("t-1", False, 1)]


def test_topic_recreated_while_the_broker_is_stopped_starts_empty(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OWN))
    append(broker.broker.partitions.get(TOPIC, 0))
    removed = metadata_record(remove_topic_record, remove_topic_record.RemoveTopicRecord(topic_id=TOPIC_ID))
    broker.broker.cluster.metadata_log.execute(Result(None, [removed, *topic(TOPIC, b"u" * 16, OWN)]))
    broker.restart()
    partition = broker.broker.partitions.get(TOPIC, 0)
    assert partition.log.offline_reason is None
    append(partition)
    broker.restart()
    assert broker.broker.partitions.get(TOPIC, 0).log.log_end_offset == 1


def test_many_new_partitions_are_opened_in_the_background(broker: SimulatedBroker) -> None:
    calls = Recorded(broker)
    change(broker, *topic(TOPIC, TOPIC_ID, *[OWN] * 150))
    assert len(calls.take()) == 100
    broker.env.settle()
    assert len(calls.take()) == 50
    change(broker, *broker.broker.cluster.state.create_partitions(TOPIC, 300).records)
    assert len(calls.take()) == 100
    broker.env.settle()
    assert len(calls.take()) == 50


def test_failure_of_one_partition_does_not_stop_a_metadata_change(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metadata delta is applied only once, so a skipped change would be lost."""
    change(broker, *topic(TOPIC, TOPIC_ID, OTHER, OTHER, OTHER, OWN), *topic(OFFSETS_TOPIC, OFFSETS_ID, OTHER))
    calls = Recorded(broker)
    lead, created = calls.lead, list[str]()

    def refuse(partition: Partition, registration: PartitionRegistration) -> None:
        if partition.log.name == "t-1":
            raise LookupError("a bug")
        lead(partition, registration)

    calls.lead = refuse  # type: ignore[method-assign]
    monkeypatch.setattr(broker.broker.groups, "topic_changed", created.append)
    with pytest.raises(LookupError, match="a bug"):
        change(
            broker,
            *(changed(index, leader=OWN) for index in range(3)),
            changed(3, leader=OTHER),
            changed(0, OFFSETS_ID, leader=OWN),
            *topic("new", b"n" * 16, OWN),
        )
    expected = [("follow", "t-3", OTHER), ("lead", "t-0", 4), ("lead", "t-2", 4), ("lead", f"{OFFSETS_TOPIC}-0", 4)]
    assert calls.take() == [*expected, ("lead", "new-0", 3), ("elected", 0, 4)]
    assert created == ["new"]


def test_failing_coordinator_does_not_stop_the_election_of_other_coordinators(broker: SimulatedBroker) -> None:
    change(broker, *topic(OFFSETS_TOPIC, OFFSETS_ID, OTHER, OTHER))
    calls = Recorded(broker)
    elected = calls.elected

    def refuse(index: int, leader_epoch: int) -> None:
        elected(index, leader_epoch)
        if index == 0:
            raise LookupError("a bug")

    calls.elected = refuse  # type: ignore[method-assign]
    with pytest.raises(LookupError, match="a bug"):
        change(broker, *(changed(index, OFFSETS_ID, leader=OWN) for index in range(2)))
    assert calls.take()[-2:] == [("elected", 0, 4), ("elected", 1, 4)]


def test_metric_counts_under_replicated_partitions(broker: SimulatedBroker) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, OWN, OTHER, OWN))
    leads = {index: broker.broker.partitions.replica(TOPIC, index) for index in (0, 2)}
    for index, in_sync in ((0, (OWN, OTHER)), (2, (OWN,))):
        leads[index].lead(make_leader(leader_epoch=5, in_sync=in_sync, partition_epoch=1, min_in_sync=2, now_ms=0))
        leads[index].log.config = msgspec.structs.replace(leads[index].log.config, min_insync_replicas=2)
    metrics = {m.name: m.samples[0].value for m in collect(broker.broker) if m.samples}
    name = "kafka_server_replicamanager"
    shown = [metrics[f"{name}_{of}"] for of in ("partitioncount", "leadercount", "underreplicatedpartitions")]
    assert shown == [3, 2, 1]
    assert (metrics[f"{name}_underminisrpartitioncount"], metrics[f"{name}_atminisrpartitioncount"]) == (1, 1)
