"""Reopening a log after a clean stop or a crash, with incompletely written or missing files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.storage.config import LogConfig
from ottla.storage.identity import DirectoryError
from ottla.storage.log_dir import LogDirectory
from ottla.storage.real_filesystem import RealFile, RealFilesystem
from ottla.storage.retention import delete_old
from tests.support.levels import seeds
from tests.support.logs import NOW_MS, SMALL, Logs, busy, end, put, state


@pytest.mark.entry("STO-01")
@pytest.mark.parametrize("seed", seeds(5, in_check=2))
def test_process_crash_loses_no_appended_records(logs: Logs, seed: int) -> None:
    log = logs.new()
    busy(log, seed=seed)
    before = state(log)
    log.abandon()
    again, report = logs.open(clean=False)
    assert state(again) == before
    assert not report.losses
    busy(again, 50, seed=seed + 100, first_pid=10)
    later = state(again)
    again.abandon()
    assert state(logs.open(clean=False, recovery_point=40)[0]) == later


def test_start_after_a_clean_shutdown_reads_no_log_segment(logs: Logs) -> None:
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    again, report = logs.open(clean=True)
    assert state(again) == before
    assert report.segments_recovered == 0
    put(again)
    assert again.log_end_offset == before[0] + 1  # type: ignore[operator]


@pytest.mark.entry("STO-02")
def test_log_whose_last_batch_is_incomplete_at_any_byte_is_recovered(logs: Logs, tmp_path: Path) -> None:
    log = logs.new()
    put(log, 3)
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    end(log, 1, commit=False)
    whole = log.active.size_bytes
    before = state(log)
    put(log, 2)
    full = log.active.size_bytes
    log.abandon()
    path = Path(log.active.log.path)
    raw = path.read_bytes()
    for size in range(whole, full):
        path.write_bytes(raw[:size])
        again, _ = logs.open(clean=False)
        assert state(again) == before
        assert path.stat().st_size == whole
        again.abandon()
    path.write_bytes(raw)
    assert logs.open(clean=False)[0].log_end_offset == 7


@pytest.mark.entry("STO-03")
@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\0" * 500, id="zeros"),
        pytest.param(random.Random(1).randbytes(500), id="garbage"),
        pytest.param(b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\0\0\0\0\2" + b"\0" * 100, id="length 2^31-1"),
        pytest.param(b"\0" * 8 + b"\xff\xff\xff\xff" + b"\0\0\0\0\2" + b"\0" * 100, id="length -1"),
        pytest.param(b"\0" * 8 + b"\0\0\0\0" + b"\0\0\0\0\2" + b"\0" * 100, id="length 0"),
    ],
)
def test_invalid_bytes_at_the_log_end_are_truncated(logs: Logs, tail: bytes) -> None:
    log = logs.new()
    put(log, 3)
    log.abandon()
    path = Path(log.active.log.path)
    sound = path.read_bytes()
    path.write_bytes(sound + tail)
    again, report = logs.open(clean=False)
    assert again.log_end_offset == 3
    assert path.read_bytes() == sound
    assert report.losses


@pytest.mark.entry("STO-04")
def test_log_is_truncated_at_an_invalid_batch_after_a_crash(logs: Logs) -> None:
    log = logs.new()
    for _ in range(60):
        put(log)
    assert len(log.segments) > 3
    second = log.segments[1]
    log.abandon()
    path = Path(second.log.path)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    again, report = logs.open(clean=False)
    assert again.log_end_offset == log.segments[2].base_offset - 1
    assert len(again.segments) == 2
    (loss,) = report.losses
    at = len(raw) - 88
    assert loss == (
        f"{path}: the batch at offset {again.log_end_offset} has a wrong CRC at byte {at}; "
        f"{88 * 39} bytes with 38 whole batches and {len(log.segments) - 2} later segments were removed"
    )


@pytest.mark.entry("STO-06")
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("content", [None, b"\xff" * 35])
def test_damaged_segment_indexes_are_rebuilt(logs: Logs, suffix: str, content: bytes | None) -> None:
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    for path in Path(logs.directory).glob(f"*{suffix}"):
        path.unlink() if content is None else path.write_bytes(content)
    if suffix == ".txnindex" and content is None:
        return  # As in Kafka, a missing transaction index means "no aborted transactions" unless the log is recovered.
    again, _ = logs.open(clean=True)
    assert state(again) == before


@pytest.mark.entry("STO-06")
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_index_does_not_affect_other_segments(logs: Logs, clean: bool) -> None:
    """Only the damaged index is rebuilt. Rebuilding other indexes could list an aborted transaction twice in a response.

    librdkafka drops committed records after an aborted transaction that is listed twice.
    """
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    sorted(Path(logs.directory).glob("*.timeindex"))[1].unlink()
    again, report = logs.open(clean=clean, recovery_point=log.log_end_offset if clean else log.active.base_offset)
    assert report.segments_recovered == (1 if clean else 2)
    assert state(again) == before


@pytest.mark.entry("STO-06", "STO-12")
def test_leftover_temporary_files_of_a_log_are_removed_at_start(logs: Logs) -> None:
    log = logs.new()
    put(log)
    log.close()
    for name in ("00000000000000000000.log.deleted", "00000000000000000009.index", "x.tmp", "00000000000000000000.log.cleaned"):
        Path(logs.directory, name).write_bytes(b"x")
    logs.open(clean=True)
    names = {p.name for p in Path(logs.directory).iterdir()}
    assert not any(n.endswith((".deleted", ".tmp", ".cleaned")) for n in names)
    assert "00000000000000000009.index" not in names


@pytest.mark.entry("STO-11")
def test_log_start_offset_beyond_the_log_end_empties_the_log_after_a_crash(logs: Logs) -> None:
    log = logs.new()
    put(log, 5)
    log.close()
    again, report = logs.open(clean=True, start=9)
    assert (again.log_start_offset, again.log_end_offset, report.has_false_start) == (0, 5, True), (
        "a clean stop never leaves such a log start offset"
    )
    again.abandon()
    again, report = logs.open(clean=False, start=9)
    assert (again.log_start_offset, again.log_end_offset) == (9, 9)
    assert report.losses
    assert put(again).base_offset == 9


class FullDisk(RealFilesystem):
    """While ``full`` is set, appends to files whose names end in ``full_for`` fail with ENOSPC."""

    full = False
    full_for = ""

    def open(self, path: str) -> RealFile:
        disk = self

        class File(RealFile):
            def append(self, data: object) -> None:
                if disk.full and path.endswith(disk.full_for):
                    raise OSError(28, "No space left on device")
                super().append(data)  # type: ignore[arg-type]

        return File(self, path)


@pytest.mark.entry("STO-21")
def test_refused_append_on_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    disk = FullDisk()
    log = Logs(disk, str(tmp_path / "t-0")).new()
    put(log, 1, pid=1, epoch=0, sequence=0)
    before = state(log)
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        put(log, 1, pid=1, epoch=0, sequence=1)
    assert state(log) == before
    disk.full = False
    assert put(log, 1, pid=1, epoch=0, sequence=1).base_offset == 1


@pytest.mark.entry("RDC-08")
def test_last_stable_offset_is_unchanged_when_an_aborted_transaction_cannot_be_indexed(tmp_path: Path) -> None:
    disk = FullDisk()
    logs = Logs(disk, str(tmp_path / "t-0"))
    log = logs.new()
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    disk.full, disk.full_for = True, ".txnindex"
    with pytest.raises(OSError, match="No space"):
        end(log, 1, commit=False)
    assert log.last_stable_offset == 0
    assert put(log).base_offset == 1
    disk.full = False
    assert end(log, 1, commit=False).base_offset == 2
    assert log.last_stable_offset == 3
    again, _ = logs.open(clean=False)
    assert [len(list(s.txn_index)) for s in again.segments] == [1]
    assert again.last_stable_offset == 3


@pytest.mark.entry("STO-05", "STO-27")
def test_two_brokers_cannot_use_the_same_log_directory(tmp_path: Path) -> None:
    first = LogDirectory(RealFilesystem(), str(tmp_path))
    first.acquire()
    with pytest.raises(DirectoryError, match="in use by another broker"):
        LogDirectory(RealFilesystem(), str(tmp_path)).acquire()
    first.close()
    second = LogDirectory(RealFilesystem(), str(tmp_path))
    second.acquire()
    assert second.was_clean
    second.abandon()
    third = LogDirectory(RealFilesystem(), str(tmp_path))
    third.acquire()
    assert not third.was_clean
    third.abandon()


@pytest.mark.entry("STO-11")
def test_log_start_offset_survives_a_restart(tmp_path: Path) -> None:
    directory = LogDirectory(RealFilesystem(), str(tmp_path))
    directory.acquire()
    log, _ = directory.open("t", 0, SMALL, NOW_MS)
    put(log, 9)
    log.delete_records(5)
    directory.close()
    again = LogDirectory(RealFilesystem(), str(tmp_path))
    again.acquire()
    log, _ = again.open("t", 0, SMALL, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (5, 9)
    again.abandon()


def test_segments_below_the_recovery_point_are_not_read_after_a_crash(logs: Logs) -> None:
    log = logs.new()
    assert log.closed_files_to_sync() == ([], 0)
    busy(log)
    before = state(log)
    paths, point = log.closed_files_to_sync()
    assert point == log.active.base_offset
    assert {Path(p).stem for p in paths} == {f"{s.base_offset:020d}" for s in log.segments[:-1]}
    log.abandon()
    again, report = logs.open(clean=False, recovery_point=point)
    assert report.segments_recovered == 1
    assert state(again) == before


def test_number_of_open_segment_files_is_bounded(tmp_path: Path) -> None:
    fs = RealFilesystem(max_open_files=8)
    logs = [Logs(fs, str(tmp_path / f"t-{i}")).new() for i in range(40)]
    for _ in range(2):
        for log in logs:
            put(log)
    assert fs.open_files <= 8
    assert [log.log_end_offset for log in logs] == [2] * 40


@pytest.mark.smoke
def test_start_after_a_crash_reads_unsynced_segments_once(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    config = LogConfig(segment_bytes=100_000, index_interval_bytes=4096)
    log = logs.new(config)
    for sequence in range(6_000):
        put(log, 1, pid=1, epoch=0, sequence=sequence)
    log.abandon()
    read = 0
    original = RealFile.read

    def counting(file: RealFile, size: int, offset: int) -> bytes:
        nonlocal read
        raw = original(file, size, offset)
        read += len(raw) if file.path.endswith(".log") else 0
        return raw

    monkeypatch.setattr(RealFile, "read", counting)
    again, _ = logs.open(clean=False, config=config)
    assert state(again) == state(log)
    assert len(log.segments) > 4
    assert log.size_bytes <= read < 1.1 * log.size_bytes


def test_start_after_a_clean_shutdown_reads_a_bounded_part_of_the_log(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    config = LogConfig(segment_bytes=1 << 30, index_interval_bytes=4096)
    log = logs.new(config)
    for _ in range(4_000):
        put(log, 3)
    log.close()
    read = 0
    original = RealFile.read

    def counting(file: RealFile, size: int, offset: int) -> bytes:
        nonlocal read
        raw = original(file, size, offset)
        read += len(raw) if file.path.endswith(".log") else 0
        return raw

    monkeypatch.setattr(RealFile, "read", counting)
    _, report = logs.open(clean=True, recovery_point=log.log_end_offset, config=config)
    assert not report.losses
    assert log.active.size_bytes > 500_000
    assert read < 100_000


@pytest.mark.parametrize("is_clean", [True, False])
def test_log_end_offset_continues_after_retention_removed_all_segments(logs: Logs, is_clean: bool) -> None:
    config = LogConfig(segment_bytes=300, retention_ms=1)
    log = logs.new(config)
    for _ in range(12):
        put(log)
    delete_old(log, NOW_MS + 10, 100)
    log.close() if is_clean else log.abandon()
    again, _ = logs.open(clean=is_clean, config=config)
    assert (again.log_start_offset, again.log_end_offset) == (12, 12)
    assert put(again).base_offset == 12


@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_are_restored_when_a_crash_undoes_a_deletion(logs: Logs, clean: bool) -> None:
    """DeleteRecords writes the leader epoch file at once, but the checkpoint of log start offsets only later."""
    log = logs.new()
    for epoch in (2, 5, 7):
        log.leader_epoch = epoch
        for _ in range(10):
            put(log, 3)
    before = list(log.epochs.entries)
    assert before == [(2, 0), (5, 30), (7, 60)]
    log.delete_records(75)
    assert log.epochs.entries == [(7, 75)]
    log.close() if clean else log.abandon()
    again, report = logs.open(clean=clean, start=40)
    assert again.log_start_offset == 40
    assert again.epochs.entries == [(5, 40), (7, 60)]
    assert again.epochs.end_offset_for(2, again.log_end_offset)[1] == 40
    assert not report.rebuilt
    again.abandon()
    later, _ = logs.open(clean=clean, start=75)
    assert later.epochs.entries == [(7, 75)]
