"""Reading the metadata of an Apache Kafka directory: the newest complete snapshot and the log after it (KIP-630)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE, ClusterState
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import sole_replica
from ottla.coordinator.result import LogRecord
from ottla.operations.adoption import AdoptionPlan, carry_out, plan_adoption
from ottla.operations.graduation import bootstrap, hand_over, plan_graduation
from ottla.operations.kafka_metadata import read_metadata
from ottla.operations.metadata_log import METADATA_CONFIG
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages import abort_transaction_record, begin_transaction_record, partition_change_record
from ottla.protocol.records import build_batch
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import BOOTSTRAP_FILE, KRAFT_FILE, METADATA_DIRECTORY, DirectoryError, DirectoryIdentity
from ottla.storage.log import Log
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.logs import NOW_MS, Logs, put

METADATA = f"/kafka/{METADATA_DIRECTORY}"
Change = Callable[[ClusterState], list[LogRecord]]


@cache
def graduated() -> Mapping[str, bytes]:
    """A graduated directory with two topics. The topic ``empty`` was never written, so it has no partition directory."""
    broker = SimulatedBroker().start()
    world = World(broker, "ottla", "")
    for command in (
        "topic t partitions=3 retention.ms=77",
        "topic empty partitions=2 cleanup.policy=compact",
        "N = init",
        "produce N t",
    ):
        perform(world, command)
    world.close()
    broker.close()
    hand_over(broker.fs, DATA_DIR, plan_graduation(broker.fs, DATA_DIR, {}))
    assert isinstance(broker.fs, MemoryFilesystem)
    return {path: bytes(raw) for path, raw in broker.fs.files.items()}


def planned(fs: MemoryFilesystem, source: str = "/kafka", *topics: str) -> AdoptionPlan:
    return plan_adoption(fs, source, topics, iter(lambda: bytes(range(16)), None))


def partition_counts(plan: AdoptionPlan) -> dict[str, int]:
    return {name: topic.partition_count for name, topic in plan.topics.items()}


def made(state: ClusterState, name: str, partition_count: int, configs: Mapping[str, str] | None = None) -> list[LogRecord]:
    records = state.create_topic(name, name.encode().ljust(16, b"."), partition_count, configs or {}).records
    for record in records:
        state.replay(record)
    return records


class KafkaDirectory:
    """A directory on which Apache Kafka has run. Tests write records to its metadata log and take snapshots."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        self.state = ClusterState(1)
        self.log = Log(self.fs, METADATA, METADATA_TOPIC, 0, METADATA_CONFIG)
        self.fs.write_file(f"{METADATA}/{KRAFT_FILE}", b"{}")

    def append(self, records: list[LogRecord]) -> None:
        self.log.append_own(build_batch(((r.key, r.value) for r in records), NOW_MS), NOW_MS)

    def make_topic(self, name: str, partition_count: int, configs: Mapping[str, str] | None = None) -> None:
        self.append(made(self.state, name, partition_count, configs))
        log = Logs(self.fs, f"/kafka/{name}-0").new()
        put(log)
        log.close()

    def snapshot(self) -> str:
        path = f"{METADATA}/{self.log.log_end_offset:020d}-{1:010d}.checkpoint"
        self.fs.write_file(path, bootstrap(self.state.snapshot()))
        return path

    def forget_log_before_now(self) -> None:
        """Delete the log below its current end, as Kafka deletes segments below a snapshot."""
        path = self.log.segments[0].path(".log")
        self.log.roll(NOW_MS)
        self.fs.unlink(path)


# Tests with a graduated directory on which Apache Kafka has not started yet.


def test_adopt_command_on_a_kafka_directory_includes_topics_without_a_partition_directory() -> None:
    fs = MemoryFilesystem(graduated())
    plan = planned(fs, DATA_DIR)
    assert partition_counts(plan) == {"t": 3, "empty": 2}
    assert plan.configs == {"t": {"retention.ms": "77"}, "empty": {"cleanup.policy": "compact"}}
    assert not plan.notes
    carry_out(fs, "/target", plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, lambda *_: None)
    assert partition_counts(planned(fs, "/target")) == {"t": 3, "empty": 2}, (
        "the adopted topics can be adopted again from ottla's own metadata"
    )


def test_kafka_topic_without_a_partition_directory_can_be_adopted_alone() -> None:
    assert partition_counts(planned(MemoryFilesystem(graduated()), DATA_DIR, "empty")) == {"empty": 2}
    with pytest.raises(DirectoryError, match=f"{DATA_DIR} has no partition of ghost"):
        planned(MemoryFilesystem(graduated()), DATA_DIR, "ghost")


def test_adopt_command_reports_a_kafka_topic_with_a_missing_log() -> None:
    fs = MemoryFilesystem(graduated())
    fs.remove_dir(f"{DATA_DIR}/t-0")
    plan = planned(fs, DATA_DIR)
    assert partition_counts(plan) == {"empty": 2}
    assert plan.notes == ["1 topics of the cluster have no partition here and are not imported: t"]


@pytest.mark.parametrize("at", [30, -30])
def test_adopt_command_refuses_a_damaged_bootstrap_snapshot(at: int) -> None:
    fs = MemoryFilesystem(graduated())
    fs.files[f"{DATA_DIR}/{BOOTSTRAP_FILE}"][at] ^= 1
    with pytest.raises(DirectoryError, match=f"{BOOTSTRAP_FILE} is damaged; restore it, or move it away"):
        planned(fs, DATA_DIR)


# Tests with a directory on which Apache Kafka has run.


def test_kafka_metadata_log_overrides_the_bootstrap_snapshot() -> None:
    kafka = KafkaDirectory()
    kafka.fs.write_file(f"/kafka/{BOOTSTRAP_FILE}", bootstrap(made(ClusterState(1), "long_gone", 1)))
    kafka.make_topic("t", 3)
    assert partition_counts(planned(kafka.fs)) == {"t": 3}


def test_elections_in_the_kafka_metadata_log_raise_the_adopted_leader_epochs() -> None:
    """Clients may know the leader epoch of an election on another broker, so the adopted epoch must not be lower."""
    kafka = KafkaDirectory()
    kafka.make_topic("t", 3)
    module = partition_change_record
    change = module.PartitionChangeRecord(partition_id=1, topic_id=kafka.state.topics["t"].topic_id, leader=2, isr=[2])
    transaction = begin_transaction_record.BeginTransactionRecord(name="x")
    aborted = abort_transaction_record.AbortTransactionRecord()
    kafka.append([metadata_record(module, change)] * 2)
    kafka.append([metadata_record(begin_transaction_record, transaction), metadata_record(module, change)])
    kafka.append([metadata_record(abort_transaction_record, aborted)])
    assert planned(kafka.fs).topics["t"].leader_epochs == [0, 2, 0]
    carry_out(kafka.fs, "/target", planned(kafka.fs), DirectoryIdentity("cluster", 5, "directory"), NOW_MS, lambda *_: None)
    adopted = read_metadata(kafka.fs, "/target", []).state.topics["t"]
    assert adopted.partitions == [sole_replica(5), sole_replica(5, 2), sole_replica(5)], (
        "this broker has the only replica of each partition"
    )


def test_kafka_metadata_snapshot_replaces_deleted_log_records() -> None:
    kafka = KafkaDirectory()
    kafka.make_topic("t", 3, {"retention.ms": "77"})
    kafka.snapshot()
    kafka.forget_log_before_now()
    kafka.make_topic("u", 2)
    plan = planned(kafka.fs)
    assert partition_counts(plan) == {"t": 3, "u": 2}
    assert plan.configs["t"] == {"retention.ms": "77"}
    assert not plan.notes


def test_kafka_metadata_records_before_a_snapshot_are_ignored() -> None:
    """Replaying a topic's first records over a newer snapshot would undo later changes of the topic."""
    kafka = KafkaDirectory()
    kafka.make_topic("t", 1)
    config = kafka.state.set_configs(TOPIC_RESOURCE, "t", {"retention.ms": "77"}).records
    kafka.append(config)
    growth = kafka.state.create_partitions("t", 4).records
    for record in (*config, *growth):
        kafka.state.replay(record)
    kafka.log.roll(NOW_MS)
    kafka.append(growth)
    kafka.snapshot()
    # The remaining log is older than the snapshot, and incomplete.
    kafka.fs.unlink(kafka.log.segments[1].path(".log"))
    plan = planned(kafka.fs)
    assert partition_counts(plan) == {"t": 4}
    assert plan.configs["t"] == {"retention.ms": "77"}


def test_previous_kafka_metadata_snapshot_is_read_if_the_newest_is_incomplete() -> None:
    kafka = KafkaDirectory()
    kafka.make_topic("t", 3)
    kafka.snapshot()
    kafka.make_topic("u", 2)
    newest = kafka.snapshot()
    del kafka.fs.files[newest][-1:]
    plan = planned(kafka.fs)
    assert partition_counts(plan) == {"t": 3, "u": 2}
    assert plan.notes == [f"{newest} is damaged and was skipped"]


def test_adopt_command_reports_missing_kafka_metadata_records() -> None:
    kafka = KafkaDirectory()
    kafka.make_topic("t", 3)
    kafka.forget_log_before_now()
    first = kafka.log.log_end_offset
    kafka.make_topic("u", 2)
    plan = planned(kafka.fs)
    assert partition_counts(plan) == {"t": 1, "u": 2}
    assert plan.notes == [f"{METADATA} lacks offsets 0 to {first - 1}: topics may lack partitions, configs and ids"]


def test_adopt_command_reports_a_wrong_crc_in_the_kafka_metadata_log() -> None:
    kafka = KafkaDirectory()
    kafka.make_topic("t", 3)
    kafka.make_topic("u", 2)
    path = kafka.log.segments[0].path(".log")
    kafka.fs.files[path][-1] ^= 1
    assert planned(kafka.fs).notes == [f"{path}: 1 batches have a wrong CRC and were skipped"]


def test_adopt_command_on_a_kafka_directory_skips_topics_on_other_brokers() -> None:
    kafka = KafkaDirectory()
    kafka.make_topic("t", 3)
    for name in "abcde":
        kafka.append(made(kafka.state, name, 1))
    plan = planned(kafka.fs)
    assert partition_counts(plan) == {"t": 3}
    assert plan.notes == ["5 topics of the cluster have no partition here and are not imported: a, b, c, ..."]
