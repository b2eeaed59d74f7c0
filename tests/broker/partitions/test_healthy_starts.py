"""Starts after a crash, on a full disk, or with other settings serve every partition and report no damage."""

from __future__ import annotations

import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.coordinator.metadata.cluster import LARGEST_ALLOTTED_PRODUCER_ID
from ottla.operations.adoption import carry_out, plan_adoption
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryIdentity, read_identity
from ottla.storage.last_stop import ABORTED, CLEAN_FILE
from tests.scenarios.play import perform
from tests.scenarios.world import World

NOW_MS = 1_700_000_000_000


def started(fs: Filesystem, **settings: str) -> tuple[SimulatedBroker, World]:
    broker = SimulatedBroker({name.replace("_", "."): value for name, value in settings.items()}, fs=fs).start()
    return broker, World(broker, "ottla", "")


def offline(broker: SimulatedBroker) -> list[str]:
    return [partition.log.offline_reason for partition in broker.broker.partitions if partition.log.offline_reason]


def test_kill_at_any_write_of_a_topic_recreation_keeps_the_topic_online() -> None:
    disk = FaultyFilesystem()
    broker, world = started(disk)
    for command in ("topic t", "topic u", "A = init", "produce A t", "produce A u n=3", "delete_records u before=2", "restart"):
        perform(world, command)
    states: list[FaultyFilesystem] = []

    def keep(number: int, kind: str, path: str) -> bool:
        states.append(disk.copy())
        return False

    disk.refuses = keep
    perform(world, "delete t")
    perform(world, "topic t")
    broker.sleep(100)
    broker.abandon()
    assert len(states) > 10
    for state in states:
        for _ in range(2):
            again, others = started(state)
            assert offline(again) == []
            if "t" in again.broker.cluster.state.topics:
                perform(others, "B = init")
                assert perform(others, "produce B t").startswith("NONE")
            assert again.broker.partitions.get("u", 0).log.log_start_offset == 2
            again.abandon()


def test_topic_recreated_on_a_full_disk_is_online_once_there_is_space() -> None:
    disk = FaultyFilesystem()
    broker, world = started(disk)
    for command in ("topic t", "A = init", "produce A t", "restart", "delete t"):
        perform(world, command)
    disk.refuses = lambda number, kind, path: kind == "write"
    perform(world, "topic t")
    disk.refuse_nothing()
    broker.abandon()
    for _ in range(2):
        broker, world = started(disk)
        assert offline(broker) == []
        perform(world, "A = init")
        assert perform(world, "produce A t").startswith("NONE")
        broker.close()


@pytest.mark.smoke
@pytest.mark.parametrize("stale", [False, True], ids=["", "an earlier topic of the name"])
def test_interrupted_adopt_command_leaves_a_directory_on_which_a_broker_starts(stale: bool) -> None:
    disk = FaultyFilesystem()
    for directory, topics in (("/source", "t"), ("/data", "ut" if stale else "u")):
        broker, world = started(disk, log_dirs=directory)
        perform(world, "A = init")
        for topic in topics:
            perform(world, f"topic {topic}")
            perform(world, f"produce A {topic} n=7")
        if directory == "/data" and stale:
            perform(world, "delete t")
        broker.close()
    plan = plan_adoption(disk, "/source", ["t"], iter(lambda: random.Random(1).randbytes(16), None))
    states: list[FaultyFilesystem] = []

    def keep(number: int, kind: str, path: str) -> bool:
        states.append(disk.copy())
        return False

    disk.refuses = keep
    identity = read_identity(disk, "/data")
    assert isinstance(identity, DirectoryIdentity)
    carry_out(disk, "/data", plan, identity, NOW_MS, lambda *_: None)
    disk.refuse_nothing()
    for state in [*states, disk]:
        broker, _ = started(state, log_dirs="/data")
        assert offline(broker) == []
        is_adopted = "t" in broker.broker.cluster.state.topics
        broker.abandon()
        if not is_adopted:
            # The interrupted adoption was undone: the copied data is removed, so the next adoption starts with an empty directory.
            carry_out(state, "/data", plan, identity, NOW_MS, lambda *_: None)
            broker, _ = started(state, log_dirs="/data")
            assert broker.broker.partitions.get("t", 0).log.log_end_offset == 7
            broker.abandon()
        assert state.files[f"/data/t-0/{0:020}.log"] == disk.files[f"/source/t-0/{0:020}.log"]
    assert is_adopted


def compacted_once(disk: FaultyFilesystem) -> None:
    """Run a broker and stop it cleanly after compaction has emptied the first segment of topic t.

    Before the stop, the topic's cleanup policy becomes ``delete``, so that the next start compacts nothing.
    """
    broker, world = started(disk, log_cleaner_backoff_ms="500")
    perform(world, "topic t cleanup.policy=compact internal.segment.bytes=400 min.cleanable.dirty.ratio=0.01")
    perform(world, "A = init")
    for number in range(30):
        perform(world, f"produce A t keys=k{number % 3} plain")
    broker.sleep(60_000)
    assert broker.broker.partitions.get("t", 0).log.segments[0].size_bytes == 0
    perform(world, "config t cleanup.policy=delete")
    broker.close()


def points_without(disk: FaultyFilesystem, point: str) -> bytes:
    """Set the recovery point of the compacted topic to `point`, and return the changed checkpoint file."""
    points = read_offsets(disk, f"/data/{RECOVERY_POINTS}")
    assert points["t", 0] == 30
    write_offsets(disk, f"/data/{RECOVERY_POINTS}", points | {("t", 0): int(point)})
    return disk.read_file(f"/data/{RECOVERY_POINTS}") or b""


@pytest.mark.entry("STO-12")
@pytest.mark.parametrize("kept", ["garbage", "missing", "0"])
@pytest.mark.parametrize("clean", [True, False])
def test_compaction_gaps_without_a_recovery_point_are_not_reported_as_losses(kept: str, clean: bool) -> None:
    disk = FaultyFilesystem()
    compacted_once(disk)
    if kept == "missing":
        disk.unlink(f"/data/{RECOVERY_POINTS}")
    else:
        disk.write_file(f"/data/{RECOVERY_POINTS}", b"0\n1\ngarbage\n" if kept == "garbage" else points_without(disk, kept))
    if not clean:
        disk.unlink(f"/data/{CLEAN_FILE}")
    for _ in range(2):
        broker, world = started(disk)
        assert broker.broker.partitions.get("t", 0).log.log_end_offset == 30
        assert broker.broker.partitions.get("t", 0).log.segments[-1].size_bytes > 0
        # Creating and deleting a topic writes the checkpoints. No sync has succeeded, so no recovery point may advance.
        perform(world, "topic u")
        perform(world, "delete u")
        perform(world, "topic u")
        broker.abandon()


@pytest.mark.entry("STO-12")
def test_log_compacted_by_another_broker_is_adopted_with_its_offset_gaps() -> None:
    disk = FaultyFilesystem()
    compacted_once(disk)
    plan = plan_adoption(disk, "/data", ["t"], iter(lambda: random.Random(1).randbytes(16), None))
    # Adoption copies partitions without cluster metadata, so nothing shows that the topic was compacted.
    plan.configs["t"].clear()
    carry_out(disk, "/target", plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, lambda *_: None)
    for _ in range(2):
        broker, _ = started(disk, log_dirs="/target")
        assert broker.broker.partitions.get("t", 0).log.log_end_offset == 30
        broker.abandon()


def test_log_is_not_rebuilt_after_a_smaller_index_interval_is_set() -> None:
    disk = FaultyFilesystem()
    broker, world = started(disk, log_index_interval_bytes="100000")
    perform(world, "topic t internal.segment.bytes=200000")
    perform(world, "A = init")
    for _ in range(35):
        perform(world, "produce A t n=100 size=200")
    broker.close()
    with capture_logs() as lines:
        broker, _ = started(disk, log_index_interval_bytes="4096")
    broker.close()
    assert [line for line in lines if line["event"] == "log_rebuilt"] == []


def test_broker_serves_a_directory_that_does_not_support_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyFilesystem()

    def unreadable(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(disk, "sync_dir", unreadable)
    for _ in range(2):
        broker, world = started(disk)
        perform(world, "topic t")
        broker.close()
        assert disk.read_file(f"/data/{CLEAN_FILE}") is not None


def test_transaction_index_is_rebuilt_when_the_checkpoint_of_its_checksum_is_damaged() -> None:
    disk = FaultyFilesystem()
    broker, world = started(disk)
    for command in ("topic t", "A = init x", "produce A t", "abort A", "produce A t", "commit A"):
        perform(world, command)
    committed: Any = perform(world, "read t")
    broker.close()
    disk.write_file(f"/data/{ABORTED}", b"")
    disk.write_file("/data/t-0/00000000000000000000.txnindex", b"")
    with capture_logs() as lines:
        broker, world = started(disk)
    assert perform(world, "read t") == committed
    broker.close()
    assert any(line["event"] == "checkpoint_ignored" and ABORTED in line["reason"] for line in lines)


MADE_UP = [LARGEST_ALLOTTED_PRODUCER_ID + 1, 2**63 - 1]
"""Producer ids that a client sends without InitProducerId. Kafka accepts the first batch of an unknown producer id."""


@pytest.mark.parametrize("producer_id", MADE_UP)
def test_producer_id_invented_by_a_client_does_not_stop_id_allocation(producer_id: int) -> None:
    broker, world = started(MemoryFilesystem())
    perform(world, "topic t")
    perform(world, "A = init")
    assert str(perform(world, f"produce A t pid={producer_id} seq=0")).startswith("NONE")
    broker.kill()
    broker.start()
    assert broker.broker.producer_ids.new() == 1_000, "the next block of producer ids is used"
    broker.close()


@pytest.mark.parametrize("clean", [True, False], ids=["snapshot", "log"])
@pytest.mark.parametrize("producer_id", MADE_UP)
def test_batches_of_an_adopted_topic_are_not_reported_as_lost(producer_id: int, clean: bool) -> None:
    disk = MemoryFilesystem()
    source, world = started(disk, log_dirs="/source")
    perform(world, "topic t")
    perform(world, "A = init")
    assert str(perform(world, f"produce A t pid={producer_id} seq=0")).startswith("NONE")
    source.close() if clean else source.abandon()
    started(disk, log_dirs="/data")[0].close()
    plan = plan_adoption(disk, "/source", ["t"], iter(lambda: random.Random(1).randbytes(16), None))
    identity = read_identity(disk, "/data")
    assert isinstance(identity, DirectoryIdentity)
    carry_out(disk, "/data", plan, identity, NOW_MS, lambda *_: None)
    target, _ = started(disk, log_dirs="/data")
    assert target.broker.producer_ids.new() == 1_000
    target.close()


@pytest.mark.entry("STO-06", "STO-10")
@pytest.mark.parametrize("clean", [True, False])
def test_index_rebuild_keeps_producer_state(clean: bool) -> None:
    """Retention deleted the producer's batch, so only the snapshot has its state. A retry is still recognized as a duplicate."""
    disk = FaultyFilesystem()
    broker, world = started(disk, log_retention_check_interval_ms="1000")
    for command in ("topic t internal.segment.bytes=500 retention.bytes=2000", "A = init", "B = init"):
        perform(world, command)
    assert perform(world, "produce A t") == "NONE @0"
    for _ in range(40):
        perform(world, "produce B t size=100")
    broker.sleep(70_000)
    perform(world, "T = init x")
    perform(world, "produce T t")
    perform(world, "abort T")
    for _ in range(8):
        perform(world, "produce B t size=100")
    broker.sleep(70_000)
    log = broker.broker.partitions.get("t", 0).log
    aborted = [entry.first_offset for segment in log.segments for entry in segment.txn_index]
    assert log.segments[0].base_offset > 0
    assert aborted
    bases = [segment.base_offset for segment in log.segments]
    broker.close() if clean else broker.abandon()
    disk.unlink(f"/data/t-0/{bases[0]:020}.timeindex")
    with capture_logs() as lines:
        broker, world = started(disk)
    assert [line["rebuilt"] for line in lines if line["event"] == "log_rebuilt"] == [[f"the indexes of {bases[0]:020}.log"]]
    perform(world, "A = init")
    assert str(perform(world, "produce A t pid=0 seq=0")).startswith("NONE @0")
    log = broker.broker.partitions.get("t", 0).log
    assert [entry.first_offset for segment in log.segments for entry in segment.txn_index] == aborted
    broker.close()


@pytest.mark.entry("STO-28")
def test_outdated_recovery_point_does_not_take_a_log_offline() -> None:
    disk = FaultyFilesystem()
    broker, world = started(disk)
    for command in ("topic t", "A = init x", "produce A t n=3", "commit A"):
        perform(world, command)
    broker.close()
    yesterday = disk.read_file(f"/data/{RECOVERY_POINTS}") or b""
    broker, world = started(disk)
    for command in ("topic u", "A = init x", "produce A t n=3", "commit A"):
        perform(world, command)
    broker.close()
    disk.write_file(f"/data/{RECOVERY_POINTS}", yesterday)
    with capture_logs() as lines:
        broker, _ = started(disk)
    assert offline(broker) == []
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 8
    told = [line["directory"] for line in lines if "the recovery point, which was" in str(line.get("rebuilt"))]
    assert {"/data/t-0", "/data/__cluster_metadata-0"} <= set(told)
    assert not any(line["event"] == "log_tail_truncated" for line in lines)
    broker.close()


def test_feature_levels_survive_a_restart() -> None:
    """A log directory with the feature levels of Apache Kafka 4.3 keeps them until they are upgraded."""
    fs = MemoryFilesystem()
    first = SimulatedBroker(features={"metadata.version": 30, "transaction.version": 1}, fs=fs).start()
    assert first.broker.cluster.state.features["metadata.version"] == 30
    first.close()
    again = SimulatedBroker(fs=fs).start()
    levels = again.broker.cluster.state.features
    assert (levels["metadata.version"], levels["transaction.version"]) == (30, 1)
    again.close()
    fresh = SimulatedBroker().start()
    assert fresh.broker.cluster.state.features["metadata.version"] == 33
    fresh.close()
