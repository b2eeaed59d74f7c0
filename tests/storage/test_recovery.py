"""Opening a log again: after a clean stop, after a crash, with files torn or missing."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from ottla.protocol.errors import KafkaError
from ottla.protocol.records import batches
from ottla.storage import snapshot
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged
from ottla.storage.identity import DirectoryError
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDirectory
from ottla.storage.producer_state import ProducerState
from ottla.storage.real_filesystem import RealFile, RealFilesystem
from ottla.storage.steps import run
from tests.storage.logs import NOW_MS, SMALL, Logs, end, put, state


def busy(log: Log, steps: int = 150, seed: int = 3, first_pid: int = 0) -> None:
    """Interleaved transactions and plain batches over several segments."""
    rng = random.Random(seed)
    sequences: dict[int, int] = {}
    opened: set[int] = set()
    for _ in range(steps):
        pid = first_pid + rng.randrange(5)
        if pid == first_pid + 4:
            put(log, 2)
        elif pid in opened and rng.random() < 0.35:
            end(log, pid, commit=rng.random() < 0.5)
            opened.discard(pid)
        else:
            put(log, 1, pid=pid, epoch=0, sequence=sequences.get(pid, 0), transactional=True)
            sequences[pid] = sequences.get(pid, 0) + 1
            opened.add(pid)


@pytest.mark.entry("STO-01")
@pytest.mark.parametrize("seed", range(5))
def test_a_crash_loses_nothing(logs: Logs, seed: int) -> None:
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


def test_a_clean_stop_reads_no_log(logs: Logs) -> None:
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
def test_the_tail_may_be_torn_at_every_byte(logs: Logs, tmp_path: Path) -> None:
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
def test_what_is_no_batch_is_cut(logs: Logs, tail: bytes) -> None:
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
def test_a_bad_batch_in_the_middle_ends_the_log(logs: Logs) -> None:
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
        f"{88 * 39} bytes with 38 whole batches and {len(log.segments) - 2} later segments cut off"
    )


@pytest.mark.entry("STO-06")
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("content", [None, b"\xff" * 35])
def test_damaged_indexes_are_made_again(logs: Logs, suffix: str, content: bytes | None) -> None:
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    for path in Path(logs.directory).glob(f"*{suffix}"):
        path.unlink() if content is None else path.write_bytes(content)
    if suffix == ".txnindex" and content is None:
        return  # as in Kafka, a missing one reads as "nothing aborted" unless the log is recovered
    again, _ = logs.open(clean=True)
    assert state(again) == before


@pytest.mark.entry("STO-06")
@pytest.mark.parametrize("clean", [True, False])
def test_one_damaged_index_leaves_those_of_other_segments_alone(logs: Logs, clean: bool) -> None:
    """An aborted transaction that is told twice hides from librdkafka what was committed after it."""
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    sorted(Path(logs.directory).glob("*.timeindex"))[1].unlink()
    again, report = logs.open(clean=clean, recovery_point=log.log_end_offset if clean else log.active.base_offset)
    assert report.segments_recovered == (1 if clean else 2)
    assert state(again) == before


@pytest.mark.entry("STO-07")
@pytest.mark.parametrize("damage", [b"", b"\0\1", b"\0\2" + b"\0" * 20, b"\0\1" + b"\7" * 60])
def test_damaged_snapshots_are_passed_over(logs: Logs, damage: bytes) -> None:
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    for path in Path(logs.directory).glob("*.snapshot"):
        path.write_bytes(damage)
    again, _ = logs.open(clean=True)
    assert state(again) == before


@pytest.mark.entry("STO-07", "STO-09")
def test_a_snapshot_equals_a_replay(logs: Logs) -> None:
    log = logs.new()
    busy(log)
    log.close()
    (newest,) = snapshot.offsets(logs.fs, logs.directory)[-1:]
    assert newest == log.log_end_offset
    by_snapshot = state(logs.open(clean=True)[0])
    for path in Path(logs.directory).glob("*.snapshot"):
        path.unlink()
    assert state(logs.open(clean=True)[0]) == by_snapshot


@pytest.mark.parametrize("clean", [True, False])
def test_each_of_the_last_five_batches_is_recognised_after_a_start(logs: Logs, clean: bool) -> None:
    """Stored, not acknowledged, and the broker was stopped or died: the client sends all that was in flight again."""
    log = logs.new()
    firsts = [put(log, 2, pid=1, epoch=0, sequence=2 * i).base_offset for i in range(6)]
    if clean:
        log.close()
    else:
        log.roll(NOW_MS)
    again, _ = logs.open(clean=clean, recovery_point=log.log_end_offset)
    for i in range(1, 6):
        retried = put(again, 2, pid=1, epoch=0, sequence=2 * i)
        assert retried.is_duplicate
        assert retried.base_offset == firsts[i]
    assert again.log_end_offset == 12


@pytest.mark.parametrize("stop", ["killed", "closed, and killed after"])
def test_what_was_deleted_before_a_crash_is_recognised_when_it_comes_again(logs: Logs, stop: str) -> None:
    """DeleteRecords moves the start of the log; the batches are still in the file, and so are their producers."""
    log = logs.new()
    for sequence in range(6):
        put(log, pid=1, epoch=0, sequence=sequence)
    log.delete_records(6)
    if stop != "killed":
        log.close()
        log, _ = logs.open(clean=True, start=6)
    log.abandon()
    again, _ = logs.open(clean=False, start=6)
    assert put(again, pid=1, epoch=0, sequence=5).base_offset == 5
    assert again.log_end_offset == 6
    with pytest.raises(KafkaError, match="OUT_OF_ORDER"):
        put(again, pid=1, epoch=0, sequence=0)


@pytest.mark.entry("IDM-22")
@pytest.mark.parametrize("batch_ms", [NOW_MS - 10**10, NOW_MS + 10**10])
def test_the_age_of_a_producer_that_a_crash_leaves_counts_from_the_start(logs: Logs, batch_ms: int) -> None:
    log = logs.new()
    put(log, pid=1, epoch=0, sequence=0, now_ms=batch_ms)
    log.abandon()
    again, _ = logs.open(clean=False)
    run(again.producers.remove_expired(NOW_MS + 999, 1_000, 10))
    assert put(again, pid=1, epoch=0, sequence=0, now_ms=batch_ms).is_duplicate
    run(again.producers.remove_expired(NOW_MS + 1_000, 1_000, 10))
    assert not again.producers.entries


def test_a_transaction_that_a_crash_leaves_is_as_late_as_its_batches(logs: Logs) -> None:
    log = logs.new()
    put(log, pid=1, epoch=0, sequence=0, transactional=True, now_ms=NOW_MS - 5_000)
    log.abandon()
    again, _ = logs.open(clean=False)
    assert again.producers.has_late_transaction(NOW_MS, 4_999)
    assert not again.producers.has_late_transaction(NOW_MS, 5_000)


def test_a_snapshot_is_bounded_by_the_producers_heard_last(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_WHOLE_PRODUCERS", 1)
    log = logs.new()
    for pid in (1, 2):
        for sequence in range(3):
            put(log, pid=pid, epoch=0, sequence=sequence, now_ms=NOW_MS + pid)
    read = {entry.producer_id: len(entry.batches) for entry in snapshot.decode(snapshot.encode(log.producers)) or []}
    assert read == {1: 1, 2: 3}


def test_the_last_entry_of_a_producer_is_its_newest(logs: Logs) -> None:
    """Apache Kafka keeps the last entry of a producer id that it reads."""
    log = logs.new()
    for sequence in range(3):
        put(log, pid=1, epoch=0, sequence=sequence, transactional=True)
    raw = snapshot.encode(log.producers)
    alone = ProducerState()
    alone.replace(snapshot.decode(raw) or [])
    assert alone.open_txns == {1: 0}
    (_, _, last_sequence, last_offset, *_) = struct.unpack(">qhiqiqiq", raw[-46:])
    assert (last_sequence, last_offset) == (2, 2)


@pytest.mark.entry("STO-06", "STO-12")
def test_leftovers_are_swept(logs: Logs) -> None:
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
def test_log_start_beyond_the_end_starts_over(logs: Logs) -> None:
    log = logs.new()
    put(log, 5)
    log.close()
    again, report = logs.open(clean=True, start=9)
    assert (again.log_start_offset, again.log_end_offset, report.has_false_start) == (0, 5, True), "no stop has left it so"
    again.abandon()
    again, report = logs.open(clean=False, start=9)
    assert (again.log_start_offset, again.log_end_offset) == (9, 9)
    assert report.losses
    assert put(again).base_offset == 9


class FullDisk(RealFilesystem):
    """Refuses writes from some moment on, to files whose names end in ``full_for``."""

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
def test_a_full_disk_changes_nothing_and_goes_on_afterwards(tmp_path: Path) -> None:
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
def test_the_lso_stays_when_the_aborted_entry_cannot_be_written(tmp_path: Path) -> None:
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
def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
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
def test_log_starts_survive_a_restart(tmp_path: Path) -> None:
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


def test_settled_segments_need_not_be_read_again(logs: Logs) -> None:
    log = logs.new()
    assert log.settled() == ([], 0)
    busy(log)
    before = state(log)
    paths, point = log.settled()
    assert point == log.active.base_offset
    assert {Path(p).stem for p in paths} == {f"{s.base_offset:020d}" for s in log.segments[:-1]}
    log.abandon()
    again, report = logs.open(clean=False, recovery_point=point)
    assert report.segments_recovered == 1
    assert state(again) == before


def test_open_files_are_bounded(tmp_path: Path) -> None:
    fs = RealFilesystem(max_open_files=8)
    logs = [Logs(fs, str(tmp_path / f"t-{i}")).new() for i in range(40)]
    for _ in range(2):
        for log in logs:
            put(log)
    assert fs.open_files <= 8
    assert [log.log_end_offset for log in logs] == [2] * 40


def damaged(raw: bytes, how: str) -> bytes:
    rng = random.Random(5)
    if how == "noise":
        return rng.randbytes(len(raw))
    if how == "noise of another size":
        return rng.randbytes(len(raw) // 2)
    if how == "zeros":
        return bytes(len(raw))
    if how == "something behind":
        return raw + rng.randbytes(200)
    if how == "the end gone":
        return raw[:-10]
    if how == "a bit of the last batch":
        return raw[:-1] + bytes([raw[-1] ^ 1])
    return b""


HARMS = ["noise", "noise of another size", "zeros", "the end gone", "a bit of the last batch", "nothing"]


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("interval", [100, 1 << 20], ids=["indexed", "no index entries"])
def test_nothing_that_the_disk_had_is_cut(logs: Logs, how: str, interval: int, clean: bool) -> None:
    """A start that finds it damaged refuses the log, and so does the next, which comes after no clean stop."""
    config = LogConfig(segment_bytes=1_000, index_interval_bytes=interval)
    log = logs.new(config)
    busy(log)
    before, end_offset = state(log), log.log_end_offset
    assert log.active.size_bytes
    log.close()
    path = Path(log.active.log.path)
    raw = path.read_bytes()
    path.write_bytes(damaged(raw, how))
    for is_closed in (clean, False):
        with pytest.raises(Damaged, match=f"(ended at|was on the disk up to|the disk had all up to offset) {end_offset}"):
            logs.open(clean=is_closed, recovery_point=end_offset, config=config)
        assert path.read_bytes() == damaged(raw, how)
    path.write_bytes(raw)
    assert state(logs.open(clean=False, recovery_point=end_offset, config=config)[0]) == before


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("field", [0, 7, 8, 11, 16, 17, 26, 30, 60], ids=lambda at: f"byte {at}")
@pytest.mark.parametrize("number", [0, 3, -1], ids=["first", "middle", "last"])
def test_a_flipped_byte_of_a_closed_log_is_found_or_changes_nothing(logs: Logs, field: int, number: int) -> None:
    """Of a batch in the middle only what leads the walk astray is seen: a clean start computes no CRC but the last."""
    config = LogConfig(segment_bytes=1 << 20)
    log = logs.new(config)
    for _ in range(6):
        put(log, 3)
    log.close()
    path = Path(log.active.log.path)
    raw = bytearray(path.read_bytes())
    at = [position for position, _ in batches(bytes(raw))][number]
    raw[at + field] ^= 0x41
    path.write_bytes(raw)
    for clean in (True, False):
        try:
            again, report = logs.open(clean=clean, recovery_point=18, config=config)
        except Damaged as error:
            assert path.name in str(error)
        else:
            assert not report.losses
            assert again.log_end_offset == 18
            assert clean
            assert number != -1
        assert path.read_bytes() == raw


@pytest.mark.entry("STO-28")
def test_what_stands_behind_the_end_of_a_closed_log_is_cut_and_told(logs: Logs) -> None:
    log = logs.new()
    busy(log)
    log.close()
    path = Path(log.active.log.path)
    raw = path.read_bytes()
    path.write_bytes(damaged(raw, "something behind"))
    again, report = logs.open(clean=True)
    assert again.log_end_offset == log.log_end_offset
    assert path.read_bytes() == raw
    assert report.losses == [f"{path}: no whole batch at byte {len(raw)}; 200 bytes with 0 whole batches cut off"]


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("in_between", [1, 30])
def test_batches_behind_the_recovery_point_of_a_closed_log_are_read_and_served(logs: Logs, in_between: int) -> None:
    """The checkpoint of recovery points is one of yesterday, which somebody has put back."""
    log = logs.new()
    busy(log, in_between)
    point = log.log_end_offset
    busy(log, 60, seed=9, first_pid=10)
    log.close()
    again, report = logs.open(clean=True, recovery_point=point)
    assert state(again) == state(log)
    assert again.recovery_point == log.log_end_offset
    assert not report.losses
    assert report.rebuilt == [f"the recovery point, which was {point} where the log is sound up to {log.log_end_offset}"]
    path = Path(again.segments[again.segment_at(point)].log.path)
    again.abandon()
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(Damaged, match="wrong CRC"):
        logs.open(clean=True, recovery_point=point)


def test_a_start_after_a_crash_reads_what_was_not_settled_once(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.entry("STO-28")
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_without_its_files_is_not_an_empty_one(logs: Logs, clean: bool) -> None:
    log = logs.new()
    put(log, 3)
    log.close()
    Path(log.active.log.path).unlink()
    with pytest.raises(Damaged, match=r"the log ends at offset 0, and .* 3"):
        logs.open(clean=clean, recovery_point=3)


@pytest.mark.entry("STO-04")
def test_whole_batches_that_a_crash_start_cuts_are_counted(logs: Logs) -> None:
    """Apache Kafka cuts there as well. Whoever reads the line knows that more went than a torn end."""
    config = LogConfig(segment_bytes=1 << 20)
    log = logs.new(config)
    for _ in range(6):
        put(log)
    log.abandon()
    path = Path(log.active.log.path)
    raw = bytearray(path.read_bytes())
    size = len(raw) // 6
    for field, reason in ((8, "no whole batch"), (40, "the batch at offset 2 has a wrong CRC")):
        harmed = bytearray(raw)
        harmed[2 * size + field] ^= 0x41
        path.write_bytes(harmed)
        again, report = logs.open(clean=False, recovery_point=2, config=config)
        assert again.log_end_offset == 2
        lost = f"{4 * size} bytes with 3 whole batches cut off"
        assert report.losses == [f"{path}: {reason} at byte {2 * size}; {lost}"]


def test_what_a_clean_start_checks_does_not_grow_with_the_log(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_offsets_go_on_after_retention_took_everything(logs: Logs, is_clean: bool) -> None:
    config = LogConfig(segment_bytes=300, retention_ms=1)
    log = logs.new(config)
    for _ in range(12):
        put(log)
    log.delete_old(NOW_MS + 10, 100)
    log.close() if is_clean else log.abandon()
    again, _ = logs.open(clean=is_clean, config=config)
    assert (again.log_start_offset, again.log_end_offset) == (12, 12)
    assert put(again).base_offset == 12
