"""A log after truncation equals a log to which the removed batches were never written."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.steps import run
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.background_sync import settle
from ottla.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, LeaderEpochs, parse_offsets, write_offsets
from ottla.storage.config import LogConfig
from ottla.storage.following import append_as_follower
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.reading import offset_for_timestamp
from ottla.storage.recovery import open_log
from ottla.storage.truncation import end_after, truncate_fully_and_start_at, truncate_to
from tests.storage.test_following import files, follow, new
from tests.support.levels import seeds
from tests.support.logs import NOW_MS, SMALL, busy, end, put, state, stored


def written(seed: int, batches: int = 120) -> Log:
    log = new()
    for epoch in range(3):
        log.leader_epoch = 2 * epoch
        busy(log, batches // 3, seed=seed + epoch, first_pid=epoch * 10)
    return log


def again_up_to(log: Log, offset: int) -> Log:
    """Return a new log with the batches of ``log`` that end at or below ``offset``."""
    shorter = new()
    for header, raw in stored(log):
        if header.next_offset <= offset:
            append_as_follower(shorter, raw, 99, NOW_MS)
    shorter.high_watermark = shorter.log_end_offset
    return shorter


def without_snapshots(content: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files without producer snapshots. The model lacks snapshots that a segment roll wrote before the truncation."""
    return {path: data for path, data in content.items() if not path.endswith(".snapshot")}


@pytest.mark.parametrize("seed", seeds(12, in_check=4))
def test_truncated_log_equals_a_log_without_the_later_batches(seed: int) -> None:
    rng = random.Random(seed)
    log, full = written(seed), written(seed)
    offset = rng.randrange(1, log.log_end_offset)
    behind = end_after(log, offset)
    log.high_watermark = min(rng.randrange(log.log_end_offset), behind)
    truncate_to(log, offset, NOW_MS)
    shorter = again_up_to(full, offset)
    assert log.log_end_offset == behind == shorter.log_end_offset
    log.high_watermark = behind
    assert state(log) == state(shorter)
    assert log.epochs.entries == shorter.epochs.entries
    if log.active.size_bytes:
        assert (log.active.max_timestamp_ms, log.active.max_timestamp_offset) == (
            shorter.active.max_timestamp_ms,
            shorter.active.max_timestamp_offset,
        )
    follow(full, log)
    follow(full, shorter)
    log.high_watermark = shorter.high_watermark = full.log_end_offset
    assert state(log) == state(shorter) == state(full)
    assert without_snapshots(files(log)) == without_snapshots(files(full))


@pytest.mark.parametrize("seed", seeds(4, in_check=2))
def test_truncated_log_is_unchanged_by_a_restart(seed: int) -> None:
    log = written(seed)
    truncate_to(log, random.Random(seed).randrange(1, log.log_end_offset), NOW_MS)
    follow(written(seed), log)
    log.high_watermark = log.log_end_offset
    again = Log(log.fs, log.directory, "t", 0, SMALL, bytes(16))
    report = open_log(again, NOW_MS, clean=False)
    assert not report.losses
    assert state(again) == state(log)
    assert again.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("anew", [False, True])
def test_producer_snapshot_of_truncated_batches_is_not_used(anew: bool) -> None:
    """A truncation must delete the producer snapshots above its offset. A later truncation would otherwise load such a snapshot,
    whose batches no longer exist."""
    log = new()
    for sequence in range(8):
        put(log, 1, pid=1, epoch=0, sequence=sequence)
    log.roll(NOW_MS)
    put(log, 1, pid=1, epoch=0, sequence=8)
    if anew:
        truncate_fully_and_start_at(log, 0, NOW_MS)
    else:
        truncate_to(log, 2, NOW_MS)
    while log.log_end_offset < 9:
        put(log, 1)
    truncate_to(log, 8, NOW_MS)
    assert {p: e.last_sequence for p, e in log.producers.entries.items()} == ({} if anew else {1: 1})
    again = Log(log.fs, log.directory, "t", 0, SMALL, bytes(16))
    open_log(again, NOW_MS, clean=False)
    assert state(again) == state(log)


def test_transaction_with_a_truncated_marker_is_open_again() -> None:
    log = new()
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    marker = log.log_end_offset
    end(log, 1, commit=False)
    assert log.last_stable_offset == 2
    truncate_to(log, marker, NOW_MS)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (1, 1, 0)
    assert log.producers.open_txns == {1: 0}
    assert list(log.active.txn_index) == []


def test_transaction_that_ended_above_the_high_watermark_is_open_again() -> None:
    log, full = written(5), written(5)
    log.high_watermark = log.log_end_offset // 3
    truncate_to(log, log.log_end_offset - 2, NOW_MS)
    follower = new()
    follow(log, follower)
    follower.high_watermark = log.high_watermark
    assert log.unreplicated
    assert [t for t in log.unreplicated if t.last_offset >= log.high_watermark] == [
        t for t in follower.unreplicated if t.last_offset >= log.high_watermark
    ]
    assert log.last_stable_offset == follower.last_stable_offset < log.high_watermark <= full.log_end_offset


def test_log_truncation_ends_at_a_batch_boundary() -> None:
    log = new()
    put(log, 5)
    put(log, 5)
    truncate_to(log, 7, NOW_MS)
    assert log.log_end_offset == 5
    truncate_to(log, 2, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)


def test_truncated_log_restarts_empty_when_no_batch_remains_above_the_log_start() -> None:
    log = new()
    put(log, 10)
    log.delete_records(4)
    truncate_to(log, 6, NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 4, 4)
    truncate_to(log, 2, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)


def test_fully_truncated_log_continues_at_the_new_start_offset() -> None:
    log = written(1)
    truncate_fully_and_start_at(log, 5_000, NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_stable_offset) == (5_000,) * 4
    assert (log.epochs.entries, log.producers.entries, len(log.segments)) == ([], {}, 1)
    again = Log(log.fs, log.directory, "t", 0, SMALL, bytes(16))
    open_log(again, NOW_MS, clean=False)
    assert (again.log_start_offset, again.log_end_offset) == (5_000, 5_000)
    put(again, 1)
    assert again.log_end_offset == 5_001


def test_truncation_beyond_the_log_end_removes_only_a_leader_epoch_without_batches() -> None:
    log = new()
    put(log, 3)
    log.epochs.assign(7, 3)
    truncate_to(log, 3, NOW_MS)
    assert (log.log_end_offset, log.epochs.entries) == (3, [(0, 0)])


def test_paused_reader_does_not_read_replacements_of_truncated_batches() -> None:
    log = written(2)
    reading = offset_for_timestamp(log, NOW_MS + 1, log.log_end_offset)
    before = log.segments[0]
    truncate_to(log, 3, NOW_MS)
    assert log.segments[0] is not before
    assert run(reading) is None


def test_fsync_begun_before_a_truncation_does_not_advance_the_recovery_point() -> None:
    log = written(3)
    steps = settle([log])
    step = next(s for s in steps.__await__() if s is not None)
    assert callable(step)
    step()
    truncate_to(log, log.segments[2].base_offset, NOW_MS)
    follow(written(3), log)
    run(steps)
    assert log.recovery_point == 0


def test_disk_error_during_truncation_takes_the_log_offline() -> None:
    for refused in range(12):
        fs = FaultyFilesystem()
        log = Log(fs, "/t-0", "t", 0, SMALL, bytes(16))
        busy(log, 60)
        offset = log.segments[1].base_offset + 2
        fs.refuse_the(refused)
        try:
            truncate_to(log, offset, NOW_MS)
        except OSError:
            assert log.is_offline
        fs.refuse_nothing()
        again = Log(fs, "/t-0", "t", 0, SMALL, bytes(16))
        open_log(again, NOW_MS, clean=False)
        assert end_after(log, offset) <= again.log_end_offset


def opened(fs: MemoryFilesystem, config: LogConfig = SMALL) -> tuple[LogDirectory, Log]:
    fs.crashed()
    directory = LogDirectory(fs, "/data")
    directory.acquire()
    log, _ = directory.open("t", 0, config, NOW_MS)
    directory.loaded()
    return directory, log


def test_checkpointed_recovery_point_is_lowered_before_truncation() -> None:
    fs = MemoryFilesystem()
    directory, log = opened(fs)
    busy(log, 60)
    log.flush()
    run(directory.write_checkpoints())
    behind = end_after(log, log.log_end_offset - 5)
    directory.truncate(log, log.log_end_offset - 5, NOW_MS)
    assert parse_offsets(fs.read_file(f"/data/{RECOVERY_POINTS}")) == {("t", 0): behind}
    _, again = opened(fs)
    assert again.offline_reason is None
    assert again.log_end_offset == behind
    directory, again = opened(fs)
    directory.truncate_fully_and_start_at(again, 3, NOW_MS)
    _, again = opened(fs)
    assert (again.offline_reason, again.log_start_offset, again.log_end_offset) == (None, 3, 3)


@pytest.mark.parametrize(("stored_offset", "expected"), [(None, 2), (0, 2), (7, 7), (99, 10)])
def test_log_uses_its_checkpointed_high_watermark_after_a_restart(stored_offset: int | None, expected: int) -> None:
    """The loaded high watermark is limited to the range from the log start offset to the log end offset."""
    fs = MemoryFilesystem()
    directory, log = opened(fs)
    for _ in range(10):
        put(log)
    directory.delete_records(log, 2)
    run(directory.write_checkpoints())
    assert parse_offsets(fs.read_file(f"/data/{HIGH_WATERMARKS}")) == {("t", 0): 10}
    write_offsets(fs, f"/data/{HIGH_WATERMARKS}", {} if stored_offset is None else {("t", 0): stored_offset})
    _, again = opened(fs)
    assert again.high_watermark == expected


@pytest.mark.parametrize(
    ("epoch", "current", "expected"),
    [
        (-1, 7, (-1, -1)),
        (0, 7, (0, 10)),
        (2, 7, (2, 30)),
        (3, 7, (2, 30)),
        (5, -1, (5, 90)),
        (5, 7, (5, 90)),
        (6, 7, (5, 90)),
        (6, -1, (-1, -1)),
        (7, 7, (7, 90)),
        (8, 7, (-1, -1)),
    ],
)
def test_log_returns_the_end_offset_of_each_leader_epoch(epoch: int, current: int, expected: tuple[int, int]) -> None:
    epochs = LeaderEpochs(MemoryFilesystem(), "/t-0")
    for known, start in ((1, 10), (2, 20), (5, 30)):
        epochs.assign(known, start)
    assert epochs.end_offset_for(epoch, 90, current) == expected


def test_current_leader_epoch_without_batches_ends_at_the_log_end() -> None:
    epochs = LeaderEpochs(MemoryFilesystem(), "/t-0")
    assert epochs.end_offset_for(2, 4, 3) == (2, 4)
    assert epochs.end_offset_for(3, 4, 3) == (3, 4)
    assert epochs.end_offset_for(3, 4) == (-1, -1)
