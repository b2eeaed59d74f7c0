"""A start after a crash logs transactions that lost some of their writes, and counts them in a metric."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.metrics.exposition import collect
from ottla.protocol.records import batches
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = pytest.mark.entry("STO-19", "STO-04")


def crashed(*commands: str) -> MemoryFilesystem:
    """Return the files on the disk after a kill."""
    fs = MemoryFilesystem()
    broker = SimulatedBroker({}, fs=fs).start()
    world = World(broker, "ottla", "")
    for command in ("topic t partitions=2", *commands):
        perform(world, command)
    world.close()
    broker.abandon()
    fs.crashed()
    return fs


def cut(fs: MemoryFilesystem, directory: str, count: int) -> None:
    """Remove the last `count` batches from a log, as if they had never reached the disk."""
    (path,) = [p for p in fs.files if f"/{directory}/" in p and p.endswith(".log")]
    raw = fs.files[path]
    del raw[[at for at, _ in batches(raw)][-count] :]


def named(fs: MemoryFilesystem) -> set[tuple[str | None, str, int]]:
    broker = SimulatedBroker({}, fs=fs).start()
    torn = broker.broker.torn
    gauge = next(m for m in collect(broker.broker) if m.name == "ottla_recovery_torn_transactions")
    assert gauge.samples[0].value == len(torn)
    broker.close()
    return {(lost.transactional_id, lost.topic, lost.partition) for lost in torn}


COMMITTED = ("A = init whole", "produce A t n=2", "produce A t/1", "offsets A g t=1", "commit A")


def test_recovery_audit_reports_no_lost_writes_after_a_kill() -> None:
    assert named(crashed(*COMMITTED, "B = init open", "produce B t", "C = init c", "produce C t/1", "abort C")) == set()


@pytest.mark.parametrize("count", [1, 2])
def test_recovery_audit_reports_a_partition_with_a_lost_marker(count: int) -> None:
    fs = crashed(*COMMITTED)
    cut(fs, "t-1", count)
    wanted = {("whole", "t", 1)} | ({(None, "t", 1)} if count == 1 else set())
    assert named(fs) == wanted


def test_recovery_audit_reports_lost_transactional_offsets() -> None:
    fs = crashed(*COMMITTED)
    (topic,) = {p.split("/")[2] for p, raw in fs.files.items() if "__consumer_offsets" in p and p.endswith(".log") and raw}
    cut(fs, topic, 1)
    assert ("whole", "__consumer_offsets", int(topic.rpartition("-")[2])) in named(fs)


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        # The Complete record is lost, so the coordinator writes the markers again.
        (1, set()),
        # The Prepare record is lost too, so the partitions have an outcome that the coordinator does not know.
        (2, {("whole", "t", 0), ("whole", "t", 1)}),
    ],
)
def test_recovery_audit_finds_a_lost_decision_by_markers_in_partitions(
    records: int, wanted: set[tuple[str | None, str, int]]
) -> None:
    fs = crashed(*(c for c in COMMITTED if "offsets" not in c))
    (topic,) = {p.split("/")[2] for p, raw in fs.files.items() if "__transaction_state" in p and p.endswith(".log") and raw}
    cut(fs, topic, records)
    assert named(fs) == wanted


def test_recovery_audit_counts_no_records_of_earlier_transactions() -> None:
    fs = crashed("A = init whole", "produce A t", "commit A", "produce A t", "commit A")
    cut(fs, "t-0", 3)
    (coordinator,) = {p.split("/")[2] for p, raw in fs.files.items() if "__transaction_state" in p and p.endswith(".log") and raw}
    cut(fs, coordinator, 1)
    broker = SimulatedBroker({}, fs=fs).start()
    assert [lost.reason for lost in broker.broker.torn] == [
        "it was committed at epoch 1, and the partition has no marker of it",
        "it commits at epoch 2, and the partition has no record of it",
    ]
    broker.close()


def test_recovery_audit_does_not_report_a_recreated_topic_as_lost() -> None:
    again = ("delete t", "wait 10", "topic t partitions=2", "N = init", "produce N t", "produce N t/1")
    assert named(crashed(*COMMITTED, *again)) == set()


def test_start_after_a_clean_stop_skips_the_recovery_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Callable[[], None]:
        raise AssertionError

    broker = SimulatedBroker({}).start()
    broker.stop()
    monkeypatch.setattr("ottla.broker.broker.find_torn_transactions", fail)
    broker.start()
    broker.close()


@pytest.mark.parametrize("how", ["noise", "no file"])
def test_log_damaged_after_a_clean_stop_goes_offline_without_lost_writes(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    fs = MemoryFilesystem()
    broker = SimulatedBroker({}, fs=fs).start()
    world = World(broker, "ottla", "")
    for command in ("topic t partitions=2", *COMMITTED):
        perform(world, command)
    world.close()
    broker.stop()
    (path,) = [p for p in fs.files if "/t-1/" in p and p.endswith(".log")]
    if how == "noise":
        fs.files[path][:] = bytes(range(251)) * 3
    else:
        for file in [p for p in fs.files if "/t-1/" in p]:
            fs.unlink(file)
    for restart in (broker.start, broker.restart):
        capsys.readouterr()
        restart()
        assert capsys.readouterr().out.count("partition_went_offline") == 1
        assert [p.log.name for p in broker.broker.partitions if p.log.is_offline] == ["t-1"]
        assert not broker.broker.torn, "damaged files may still be repaired, so no transaction is reported"
    broker.close()
    assert broker.bugs == 0
