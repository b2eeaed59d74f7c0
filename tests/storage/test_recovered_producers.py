"""Producer state after a restart, restored from snapshots and batches."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from ottla.protocol.errors import KafkaError
from ottla.protocol.steps import run
from ottla.storage import snapshot
from ottla.storage.producer_state import ProducerState
from tests.support.logs import NOW_MS, Logs, busy, put, state


@pytest.mark.entry("STO-07")
@pytest.mark.parametrize("damage", [b"", b"\0\1", b"\0\2" + b"\0" * 20, b"\0\1" + b"\7" * 60])
def test_damaged_producer_state_snapshots_are_skipped(logs: Logs, damage: bytes) -> None:
    log = logs.new()
    busy(log)
    before = state(log)
    log.close()
    for path in Path(logs.directory).glob("*.snapshot"):
        path.write_bytes(damage)
    again, _ = logs.open(clean=True)
    assert state(again) == before


@pytest.mark.entry("STO-07", "STO-09")
def test_producer_state_restored_from_a_snapshot_equals_a_replay_of_the_log(logs: Logs) -> None:
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
def test_duplicates_of_a_producers_last_five_batches_are_recognized_after_a_restart(logs: Logs, clean: bool) -> None:
    """The broker stopped before it acknowledged five stored batches, so the client sends all five again."""
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
def test_duplicate_of_a_deleted_batch_is_recognized_after_a_crash(logs: Logs, stop: str) -> None:
    """DeleteRecords advances the log start offset, but the batches and the state of their producers remain in the files."""
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
def test_idle_time_of_a_producer_counts_from_the_start_after_a_crash(logs: Logs, batch_ms: int) -> None:
    log = logs.new()
    put(log, pid=1, epoch=0, sequence=0, now_ms=batch_ms)
    log.abandon()
    again, _ = logs.open(clean=False)
    run(again.producers.remove_expired(NOW_MS + 999, 1_000, 10))
    assert put(again, pid=1, epoch=0, sequence=0, now_ms=batch_ms).is_duplicate
    run(again.producers.remove_expired(NOW_MS + 1_000, 1_000, 10))
    assert not again.producers.entries


def test_transaction_age_after_a_crash_is_that_of_its_batches(logs: Logs) -> None:
    log = logs.new()
    put(log, pid=1, epoch=0, sequence=0, transactional=True, now_ms=NOW_MS - 5_000)
    log.abandon()
    again, _ = logs.open(clean=False)
    assert again.producers.has_late_transaction(NOW_MS, 4_999)
    assert not again.producers.has_late_transaction(NOW_MS, 5_000)


def test_producer_state_snapshot_has_a_bounded_number_of_recent_producers(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_WHOLE_PRODUCERS", 1)
    log = logs.new()
    for pid in (1, 2):
        for sequence in range(3):
            put(log, pid=pid, epoch=0, sequence=sequence, now_ms=NOW_MS + pid)
    read = {entry.producer_id: len(entry.batches) for entry in snapshot.decode(snapshot.encode(log.producers)) or []}
    assert read == {1: 1, 2: 3}


def test_last_entry_of_a_producer_in_a_producer_state_snapshot_wins(logs: Logs) -> None:
    """As in Apache Kafka, the last entry of a producer in the snapshot is used."""
    log = logs.new()
    for sequence in range(3):
        put(log, pid=1, epoch=0, sequence=sequence, transactional=True)
    raw = snapshot.encode(log.producers)
    alone = ProducerState()
    alone.replace(snapshot.decode(raw) or [])
    assert alone.open_txns == {1: 0}
    (_, _, last_sequence, last_offset, *_) = struct.unpack(">qhiqiqiq", raw[-46:])
    assert (last_sequence, last_offset) == (2, 2)


@pytest.mark.parametrize("padding", [0, 256 << 20])
def test_implausibly_large_producer_state_snapshot_is_not_read(logs: Logs, monkeypatch: pytest.MonkeyPatch, padding: int) -> None:
    """A valid CRC does not prove that a broker wrote the snapshot, and a huge sparse file uses little disk space."""
    log = logs.new()
    busy(log)
    before, path = state(log), snapshot.path_of(logs.directory, log.log_end_offset)
    log.close()
    count = log.log_end_offset + 1
    entries = struct.pack(">i", count) + b"".join(struct.pack(">qhiqiqiq", pid, 0, 0, 0, 0, 0, 0, -1) for pid in range(count))
    Path(path).write_bytes(struct.pack(">hI", 1, crc32c(entries)) + entries)
    assert len(snapshot.decode(Path(path).read_bytes()) or ()) == count
    with Path(path).open("r+b") as file:
        file.truncate(Path(path).stat().st_size + padding)
    read: list[str] = []
    whole = logs.fs.read_file

    def read_file(name: str) -> bytes | None:
        read.append(name)
        return whole(name)

    monkeypatch.setattr(logs.fs, "read_file", read_file)
    assert state(logs.open(clean=True)[0]) == before
    assert path not in read
