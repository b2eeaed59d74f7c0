"""Opening a log directory: the clean-shutdown file, the checkpoints, missing files and leftover files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.protocol.errors import KafkaError
from ottla.protocol.primitives import NO_UUID, Buffer
from ottla.protocol.steps import run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.tracing_filesystem import TracingFilesystem
from ottla.storage import snapshot
from ottla.storage.background_sync import settle
from ottla.storage.checkpoints import LEADER_EPOCH_FILE, RECOVERY_POINTS, write_offsets
from ottla.storage.config import LogConfig
from ottla.storage.last_stop import ABORTED, CLEAN_FILE, FIRST_DIRTY, LOG_STARTS
from ottla.storage.log import Log
from ottla.storage.log_cleaner import filthiest
from ottla.storage.log_dir import LogDirectory
from ottla.storage.retention import delete_old
from ottla.storage.txn_index import AbortedTxn
from tests.storage.test_log_cleaner import BUFFER_BYTES, COMPACTED, write
from tests.support.logs import NOW_MS, SMALL, end, put, state


def opened(fs: MemoryFilesystem | TracingFilesystem, config: LogConfig = SMALL) -> tuple[LogDirectory, Log]:
    fs.crashed()
    directory = LogDirectory(fs, "/data")
    directory.acquire()
    log, _ = directory.open("t", 0, config, NOW_MS)
    log.move_high_watermark(log.log_end_offset)
    directory.loaded()
    return directory, log


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.mark.entry("STO-05")
def test_crash_while_logs_are_loaded_leaves_no_clean_shutdown_file(fs: MemoryFilesystem) -> None:
    directory, log = opened(fs)
    put(log, 3)
    directory.close()
    directory, _ = opened(fs)
    assert directory.was_clean
    assert f"/data/{CLEAN_FILE}" not in fs.files, "the clean-shutdown file is removed before the logs are loaded"
    again, _ = opened(fs)
    assert not again.was_clean


@pytest.mark.entry("STO-05")
def test_clean_shutdown_file_is_written_last_during_a_clean_stop(fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, log = opened(fs)
    put(log, 3)
    written: list[str] = []
    real = fs.write_file

    def note(path: str, data: bytes) -> None:
        written.append(path)
        real(path, data)

    monkeypatch.setattr(fs, "write_file", note)
    directory.close()
    assert written[-1] == f"/data/{CLEAN_FILE}"


@pytest.mark.entry("STO-05")
def test_every_checkpoint_is_synced_before_the_clean_shutdown_file_is_written() -> None:
    """After a power cut, a clean-shutdown file must not exist together with checkpoints older than it."""
    fs = TracingFilesystem()
    directory, log = opened(fs)
    put(log, 3)
    directory.close()
    moments = {(op.kind, op.path): number for number, op in enumerate(fs.trace)}
    for name in (RECOVERY_POINTS, LOG_STARTS, FIRST_DIRTY, ABORTED):
        written, synced = moments["write", f"/data/{name}"], moments["sync", f"/data/{name}"]
        assert written < synced < moments["write", f"/data/{CLEAN_FILE}"], name


@pytest.mark.entry("STO-12")
def test_recovery_point_is_synced_before_compaction_removes_records() -> None:
    fs = TracingFilesystem()
    directory, log = opened(fs, COMPACTED)
    for _ in range(5):
        write(log, ("key", "value"))
    log.roll(NOW_MS)
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    run(directory.clean(dirty, NOW_MS, BUFFER_BYTES))
    moments = {(op.kind, op.path): number for number, op in enumerate(fs.trace)}
    written, synced = moments["write", f"/data/{RECOVERY_POINTS}"], moments["sync", f"/data/{RECOVERY_POINTS}"]
    assert written < synced < min(number for number, op in enumerate(fs.trace) if op.to.endswith(".log.swap"))


@pytest.mark.entry("STO-11")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: None, id="missing"),
        pytest.param(lambda raw: raw[: len(raw) // 2], id="cut"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda raw: raw.replace(b"0\n1\n", b"0\n7\n"), id="count"),
        pytest.param(lambda raw: raw.replace(b"0\n", b"9\n", 1), id="version"),
        pytest.param(lambda _: b"\xff\xfe\x00garbage", id="garbage"),
        pytest.param(lambda _: b"0\n1\nt zero 5\n", id="no number"),
        pytest.param(lambda _: b"0\n1\nt 0\n", id="too few words"),
    ],
)
def test_damaged_checkpoint_is_ignored_when_a_log_is_opened(fs: MemoryFilesystem, damage: Callable[[bytes], bytes | None]) -> None:
    directory, log = opened(fs)
    for _ in range(60):
        put(log)
    log.delete_records(5)
    run(settle([log]))
    run(directory.write_checkpoints())
    before = state(log)
    for name in (RECOVERY_POINTS, LOG_STARTS):
        raw = damage(bytes(fs.files[f"/data/{name}"]))
        if raw is None:
            fs.unlink(f"/data/{name}")
        else:
            fs.write_file(f"/data/{name}", raw)
    _, again = opened(fs)
    assert state(again) == before
    assert again.recovery_point == 0
    assert again.log_start_offset == again.segments[0].base_offset


def test_damaged_checkpoint_is_not_overwritten_with_an_empty_checkpoint(fs: MemoryFilesystem) -> None:
    """Without meta.properties the directory looks new, and in a new directory the broker creates empty checkpoints."""
    fs.write_file(f"/data/{RECOVERY_POINTS}", b"garbage")
    for _ in range(2):
        assert opened(fs)[0].unreadable
    fs.unlink(f"/data/{RECOVERY_POINTS}")
    assert not opened(fs)[0].unreadable
    assert fs.read_file(f"/data/{RECOVERY_POINTS}") == b"0\n0\n"


@pytest.mark.entry("STO-10")
@pytest.mark.parametrize("is_settled_later", [False, True])
def test_compacted_log_recognizes_the_last_five_batches_after_a_crash(fs: MemoryFilesystem, is_settled_later: bool) -> None:
    """Compaction removed all but one of the producer's batches. The newest segments are not covered by the recovery point."""
    directory, log = opened(fs, COMPACTED)
    for sequence in range(7):
        write(log, ("key", f"v{sequence}"), pid=1, sequence=sequence)
    log.roll(NOW_MS)
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    run(directory.clean(dirty, NOW_MS, BUFFER_BYTES))
    for sequence in range(200):
        write(log, ("other", f"v{sequence}"), pid=2, sequence=sequence)
        if sequence == 120 and is_settled_later:
            run(settle([log]))
    assert len(log.segments) > 4
    _, again = opened(fs, COMPACTED)
    assert log.log_end_offset == again.log_end_offset
    for sequence in range(2, 7):
        assert write(again, ("key", f"v{sequence}"), pid=1, sequence=sequence).base_offset == sequence


@pytest.mark.entry("STO-10")
def test_only_producer_state_snapshots_of_the_newest_segments_are_kept(fs: MemoryFilesystem) -> None:
    directory, log = opened(fs)
    for _ in range(100):
        put(log, 1, pid=1, epoch=0, sequence=log.log_end_offset)
    assert len(log.segments) > 4
    run(settle([log]))
    assert snapshot.offsets(fs, log.directory) == [s.base_offset for s in log.segments[1:]], (
        "snapshots are kept until the recovery points are written"
    )
    run(directory.write_checkpoints())
    for _ in range(40):
        put(log, 1, pid=1, epoch=0, sequence=log.log_end_offset)
    since = [s.base_offset for s in log.segments if s.base_offset >= log.recovery_point]
    assert len(since) > 2
    assert snapshot.offsets(fs, log.directory) == since
    run(settle([log]))
    run(directory.write_checkpoints())
    put(log, 1, pid=1, epoch=0, sequence=log.log_end_offset)
    log.roll(NOW_MS)
    wanted = [s.base_offset for s in log.segments[-2:]]
    assert snapshot.offsets(fs, log.directory) == wanted
    put(log, 1, pid=1, epoch=0, sequence=log.log_end_offset)
    directory.close()
    assert snapshot.offsets(fs, log.directory) == [*wanted, log.log_end_offset]
    _, again = opened(fs)
    put(again, 1, pid=1, epoch=0, sequence=again.log_end_offset)
    again.roll(NOW_MS)
    assert len(snapshot.offsets(fs, again.directory)) <= 3


@pytest.mark.entry("STO-13")
def test_leader_epoch_checkpoint_is_corrected_from_the_log(fs: MemoryFilesystem) -> None:
    _, log = opened(fs)
    put(log, 3)
    log.leader_epoch = 4
    put(log, 2)
    path = f"{log.directory}/{LEADER_EPOCH_FILE}"
    assert fs.files[path] == b"0\n2\n0 0\n4 3\n"
    fs.write_file(path, b"0\n3\n0 0\n4 3\n9 77\n")
    _, again = opened(fs)
    assert again.epochs.entries == [(0, 0), (4, 3)], "entries beyond the log end are removed"
    fs.write_file(path, b"0\n1\nnonsense\n")
    _, again = opened(fs)
    assert again.epochs.entries == [(0, 0), (4, 3)], "a damaged file is rebuilt"
    fs.unlink(path)
    _, again = opened(fs)
    assert again.epochs.entries == [(0, 0), (4, 3)], "missing entries are restored from the batches"


@pytest.mark.entry("STO-24")
@pytest.mark.parametrize("commit", [True, False])
def test_delete_records_may_remove_records_of_an_open_transaction(fs: MemoryFilesystem, commit: bool) -> None:
    directory, log = opened(fs)
    put(log, 1)
    put(log, 5, pid=1, epoch=0, sequence=0, transactional=True)
    put(log, 2)
    log.delete_records(4)
    assert log.last_stable_offset == log.log_start_offset == 4
    run(directory.write_checkpoints())
    _, again = opened(fs)
    assert again.last_stable_offset == 4
    end(again, 1, commit=commit)
    assert again.last_stable_offset == again.log_end_offset == 9
    entries = [(a.first_offset, a.last_offset) for s in again.segments for a in s.txn_index]
    assert entries == ([] if commit else [(4, 8)])


@pytest.mark.entry("STO-24")
def test_retention_may_remove_records_of_an_open_transaction(fs: MemoryFilesystem) -> None:
    _, log = opened(fs)
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    while len(log.segments) < 4:
        put(log, 1)
    log.delete_records(log.segments[2].base_offset)
    delete_old(log, NOW_MS, 10)
    assert log.last_stable_offset == log.log_start_offset == log.segments[0].base_offset
    end(log, 1, commit=True)
    assert log.last_stable_offset == log.log_end_offset


def test_log_with_more_aborted_transactions_than_batches_is_opened(fs: MemoryFilesystem) -> None:
    directory, log = opened(fs)
    put(log)
    for number in range(3):
        log.active.txn_index.append(AbortedTxn(number, 0, number, number))
    directory.close()
    _, again = opened(fs)
    assert [entry.producer_id for entry in again.active.txn_index] == [0, 1, 2]


def checkpointed_and_deleted(fs: MemoryFilesystem) -> LogDirectory:
    directory, log = opened(fs)
    put(log, 3)
    log.delete_records(2)
    log.recovery_point = log.first_dirty_offset = 3
    run(directory.write_checkpoints())
    write_offsets(fs, f"/data/{FIRST_DIRTY}", {("t", 0): 3})
    directory.delete(directory.logs["t", 0], "x", NOW_MS)
    return directory


@pytest.mark.parametrize("in_a_new_life", [False, True])
def test_recreated_log_does_not_use_checkpoints_of_the_deleted_log(fs: MemoryFilesystem, in_a_new_life: bool) -> None:
    directory = checkpointed_and_deleted(fs)
    if in_a_new_life:
        fs.crashed()
        directory = LogDirectory(fs, "/data")
        directory.acquire()
        directory.loaded()
    put(directory.create("t", 0, SMALL, NO_UUID), 5)
    directory, log = opened(fs)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, log.first_dirty_offset) == (0, 5, 0, 0)


def test_recreated_log_refuses_appends_until_checkpoints_of_the_deleted_log_are_removed(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = checkpointed_and_deleted(fs)

    def full(path: str, data: Buffer) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(fs, "write_file", full)
        log = directory.create("t", 0, SMALL, NO_UUID)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        put(log)
