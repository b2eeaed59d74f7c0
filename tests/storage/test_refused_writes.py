"""Disk errors at every write of an operation: a failed call leaves no partial effect, and succeeds when it is retried."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ottla.storage.real_filesystem as real
from ottla.protocol.steps import run
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged, SyncFailed, sync_dir, sync_file
from ottla.storage.log import Log
from ottla.storage.log_cleaner import clean, dirtiness
from ottla.storage.log_dir import LogDirectory
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.recovery import open_log
from ottla.storage.retention import delete_old
from tests.support.levels import seeds
from tests.support.logs import NOW_MS, Logs, end, put, state

TINY = LogConfig(segment_bytes=600, index_interval_bytes=100)
STEPS = 60
MAX_WRITES_OF_A_CALL = 12


def story(log: Log, seed: int) -> list[Callable[[], object]]:
    """Return a random sequence of calls that write transactions and plain batches and change the leader epoch."""
    rng = random.Random(seed)
    sequences: dict[int, int] = {}
    opened: set[int] = set()
    calls: list[Callable[[], object]] = []
    for _ in range(STEPS):
        pid = rng.randrange(4)
        if rng.random() < 0.05:
            calls.append(lambda: setattr(log, "leader_epoch", log.leader_epoch + 1))
        elif pid == 3:
            calls.append(lambda: put(log, 2))
        elif pid in opened and rng.random() < 0.4:
            opened.discard(pid)
            commit = rng.random() < 0.4
            calls.append(lambda pid=pid, commit=commit: end(log, pid, commit=commit))  # type: ignore[misc]
        else:
            sequence = sequences.get(pid, 0)
            sequences[pid] = sequence + 1
            opened.add(pid)
            calls.append(lambda pid=pid, at=sequence: put(log, 1, pid=pid, epoch=0, sequence=at, transactional=True))  # type: ignore[misc]
    return calls


def visible(log: Log) -> tuple[Any, ...]:
    """Return the state that readers and producers observe. A roll that succeeded before the error does not change it."""
    producers = [(e.producer_id, e.epoch, e.txn_first_offset, e.packed) for e in log.producers.entries.values()]
    aborted = [a for s in log.segments for a in s.txn_index]
    return (log.log_end_offset, log.last_stable_offset, list(log.producers.open_txns.items()), producers, aborted, log.size_bytes)


def again(fs: FaultyFilesystem, log: Log, *, clean: bool) -> Log:
    opened = Log(fs, log.directory, "t", 0, log.config, log.topic_id)
    open_log(opened, NOW_MS, clean=clean)
    return opened


@pytest.mark.entry("STO-21", "RDC-08")
@pytest.mark.parametrize("seed", seeds(3, in_check=1))
def test_failed_log_write_leaves_no_partial_change(seed: int) -> None:
    fs = FaultyFilesystem()
    log = Logs(fs, "/d/t-0").new(TINY)
    for call in story(log, seed):
        for nth in range(MAX_WRITES_OF_A_CALL):
            before = visible(log)
            fs.refuse_the(nth)
            refused = fs.refused
            try:
                call()
                fs.refuse_nothing()
                break
            except OSError:
                assert fs.refused > refused
            fs.refuse_nothing()
            assert visible(log) == before
            assert not log.is_failed
            if log.segments:
                crashed = Logs(fs.copy(), "/d/t-0")
                assert visible(crashed.open(clean=False, config=TINY)[0])[:3] == before[:3]
        else:
            pytest.fail("the call never succeeds")
    assert fs.refused > STEPS
    assert len(log.segments) > 3
    before_all = state(log)
    assert state(again(fs, log, clean=False)) == before_all
    log.close()
    assert visible(again(fs, log, clean=True))[0:3] == visible(log)[0:3]


@pytest.mark.entry("STO-21")
def test_retention_resumes_after_a_disk_error() -> None:
    for nth in range(40):
        fs = FaultyFilesystem()
        log = Logs(fs, "/d/t-0").new(LogConfig(segment_bytes=300, retention_ms=1))
        for n in range(12):
            log.leader_epoch = n
            put(log)
        fs.refuse_the(nth)
        retired = []
        with suppress(OSError):
            retired += delete_old(log, NOW_MS + 10, 100)
        fs.refuse_nothing()
        while paths := delete_old(log, NOW_MS + 10, 100):
            retired += paths
        renamed = {path for path in fs.files if path.endswith(".deleted")}
        assert renamed
        assert renamed <= set(retired), "all renamed files are returned for deletion"
        assert not log.renames.are_owed
        assert (log.log_start_offset, log.log_end_offset) == (12, 12)
        opened = again(fs, log, clean=False)
        assert (opened.log_start_offset, opened.log_end_offset) == (12, 12)
        assert set(opened.epochs.entries) <= set(log.epochs.entries)


def test_retention_frees_space_on_a_full_disk() -> None:
    """Every write fails, and retention still deletes all segments except the active one."""
    fs = FaultyFilesystem()
    log = Logs(fs, "/d/t-0").new(LogConfig(segment_bytes=300, retention_ms=1))
    for _ in range(12):
        put(log)
    fs.refuse_everything()
    assert delete_old(log, NOW_MS + 10, 100)
    assert len(log.segments) == 1
    assert not delete_old(log, NOW_MS + 10, 100)
    fs.refuse_nothing()
    assert delete_old(log, NOW_MS + 10, 100)
    assert log.log_start_offset == log.log_end_offset == 12


@pytest.mark.smoke
@pytest.mark.entry("STO-21")
def test_interrupted_swap_of_compacted_segments_is_finished_later() -> None:
    """A disk error at any operation of a cleaning pass leaves the log's content unchanged.

    The content is also the same after a crash, and after the next cleaning pass.
    """
    config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, segment_bytes=400)
    for nth in range(200):
        fs = FaultyFilesystem()
        log = Logs(fs, "/d/t-0").new(config)
        for n in range(8):
            put(log, 1, pid=n, epoch=0, sequence=0, transactional=True)
            end(log, n, commit=n % 2 == 0)
        log.roll(NOW_MS)
        before = (log.last_stable_offset, log.log_end_offset)
        fs.refuse_the(nth)
        dirty = dirtiness(log, NOW_MS)
        assert dirty is not None
        try:
            run(clean(dirty, NOW_MS, 1 << 20))
            was_refused = False
        except OSError:
            was_refused = True
        if not was_refused:
            assert nth > 10
            return
        fs.refuse_nothing()
        assert (log.last_stable_offset, log.log_end_offset) == before
        assert [h.base_offset for s in log.segments for _, h, _ in s.scan()]
        copied = fs.copy()
        after_a_crash = Logs(copied, "/d/t-0").open(clean=False, recovery_point=log.log_end_offset, config=config)[0]
        assert after_a_crash.log_end_offset == log.log_end_offset
        assert after_a_crash.last_stable_offset == log.last_stable_offset
        put(log)
        delete_old(log, NOW_MS, 100)
        assert not log.renames.are_owed
        dirty = dirtiness(log, NOW_MS)
        if dirty is not None:
            run(clean(dirty, NOW_MS, 1 << 20))
        swapped = [p for p in fs.files if p.endswith((".swap", ".cleaned"))]
        assert not swapped
        reopened = again(fs, log, clean=False)
        assert reopened.log_end_offset == log.log_end_offset
    pytest.fail("the pass does not end")


def test_failed_delete_records_changes_nothing() -> None:
    fs = FaultyFilesystem()
    directory = LogDirectory(fs, "/d")
    directory.acquire()
    log = directory.create("t", 0, TINY, bytes(16))
    put(log, 5)
    fs.refuse_everything()
    with pytest.raises(OSError, match="No space"):
        directory.delete_records(log, 3)
    assert log.log_start_offset == 0
    fs.refuse_nothing()
    directory.delete_records(log, 3)
    assert log.log_start_offset == 3


class HalfDisk:
    """Replaces `os.pwrite` with a function that writes half of the data and then fails. It can also make truncation fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pwrite, self._ftruncate = os.pwrite, os.ftruncate
        self.is_full = False
        self.is_broken = False
        monkeypatch.setattr(real.os, "pwrite", self.pwrite)
        monkeypatch.setattr(real.os, "ftruncate", self.ftruncate)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        if self.is_full and len(data) < 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._pwrite(fd, data[: len(data) // 2] if self.is_full else data, offset)

    def ftruncate(self, fd: int, size: int) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "Input/output error")
        self._ftruncate(fd, size)


def test_partially_written_batch_is_truncated_before_the_next_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HalfDisk(monkeypatch)
    file = RealFilesystem().open(str(tmp_path / "f"))
    file.append(b"sound")
    disk.is_full = disk.is_broken = True
    with pytest.raises(OSError, match="No space"):
        file.append(b"x" * 100)
    assert file.size == 5
    assert (tmp_path / "f").stat().st_size > 5
    disk.is_full = False
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"y")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    disk.is_broken = False
    file.append(b"!")
    assert (tmp_path / "f").read_bytes() == b"sound!"


def test_rolled_segment_contains_no_partially_written_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HalfDisk(monkeypatch)
    logs = Logs(RealFilesystem(), str(tmp_path / "t-0"))
    log = logs.new(TINY)
    put(log, 5)
    disk.is_full = disk.is_broken = True
    with pytest.raises(OSError, match="No space"):
        put(log, 5)
    disk.is_full = disk.is_broken = False
    size = log.active.size_bytes
    put(log, 15)
    assert len(log.segments) == 2
    assert Path(log.segments[0].log.path).stat().st_size == size
    log.close()
    assert logs.open(clean=True, config=TINY)[0].log_end_offset == 20


def test_refused_file_replacement_leaves_no_partially_written_file(tmp_path: Path) -> None:
    fs = RealFilesystem()
    target = tmp_path / "checkpoint"
    target.mkdir()
    with pytest.raises(OSError, match="directory"):
        fs.write_file(str(target), b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_path_that_cannot_be_opened_for_fsync_is_reported_as_damaged(tmp_path: Path) -> None:
    """If a path cannot be opened, the path is damaged. Only a failed fsync is reported as a failure of the disk."""
    fs, elsewhere = RealFilesystem(), tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x")
    (tmp_path / "link").symlink_to(elsewhere)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in ("link", "loop", "elsewhere/inside"):
        with pytest.raises(Damaged):
            sync_file(fs, str(tmp_path / path))
    for path in ("elsewhere", "elsewhere/inside", "loop"):
        with pytest.raises(Damaged):
            sync_dir(fs, str(tmp_path / path))
    for missing in (sync_file, sync_dir):
        with pytest.raises(FileNotFoundError):
            missing(fs, str(tmp_path / "nothing"))
    sync_file(fs, str(elsewhere))
    sync_dir(fs, str(tmp_path))


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_failed_fsync_raises_sync_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fails(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fails)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(SyncFailed):
        sync_file(RealFilesystem(), str(tmp_path / "file"))
    with pytest.raises(SyncFailed):
        sync_dir(RealFilesystem(), str(tmp_path))


def test_too_many_open_files_is_reported_neither_as_sync_failure_nor_as_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("os.open", opened)
    for sync in (sync_file, sync_dir):
        with pytest.raises(OSError, match="Too many") as refused:
            sync(RealFilesystem(), str(tmp_path))
        assert not isinstance(refused.value, (SyncFailed, Damaged))
