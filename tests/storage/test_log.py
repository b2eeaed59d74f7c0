"""A partition's log: reads, last stable offset, segment rolls and retention."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import batches
from ottla.protocol.steps import run
from ottla.storage.config import LogConfig
from ottla.storage.reading import offset_for_timestamp, offset_of_max_timestamp, read
from ottla.storage.retention import delete_old
from tests.support.logs import NOW_MS, SMALL, Logs, end, put


def offsets(data: object) -> list[int]:
    return [o for _, h in batches(data) for o in range(h.base_offset, h.next_offset)]  # type: ignore[arg-type]


def test_log_read_begins_at_the_batch_that_contains_the_offset(logs: Logs) -> None:
    log = logs.new()
    for _ in range(40):
        put(log, 3)
    assert len(log.segments) > 3
    for wanted in range(120):
        read_offsets = offsets(read(log, wanted, 1 << 20, committed=False).data)
        assert read_offsets[0] == wanted - wanted % 3
        assert wanted in read_offsets


def test_continuous_log_reader_sees_every_record_once(logs: Logs) -> None:
    log = logs.new()
    for i in range(60):
        put(log, 1 + i % 4)
    seen: list[int] = []
    while len(seen) < log.log_end_offset:
        piece = [o for o in offsets(read(log, len(seen), 300, committed=False).data) if o >= len(seen)]
        assert piece
        seen += piece
    assert seen == list(range(log.log_end_offset))


def test_log_read_with_an_offset_out_of_range_is_refused(logs: Logs) -> None:
    log = logs.new()
    put(log, 3)
    assert read(log, 3, 100, committed=False).data == b""
    for wrong in (-1, 4):
        with pytest.raises(KafkaError, match=Code.OFFSET_OUT_OF_RANGE.name):
            read(log, wrong, 100, committed=False)


def test_log_read_returns_the_whole_first_batch_even_if_larger_than_max_bytes(logs: Logs) -> None:
    log = logs.new()
    put(log, 10)
    assert offsets(read(log, 0, 1, committed=False).data) == list(range(10))
    assert read(log, 0, 1, committed=False, min_one_batch=False).data == b""


def test_last_stable_offset_equals_that_of_a_model(logs: Logs) -> None:
    """Interleaves random transactions, and compares last stable offset and read_committed records with a model after each step."""
    rng = random.Random(7)
    log = logs.new()
    open_at: dict[int, int] = {}
    sequences: dict[int, int] = {}
    aborted: set[int] = set()
    owned: dict[int, list[int]] = {}
    for _ in range(300):
        pid = rng.randrange(4)
        if pid in open_at and rng.random() < 0.3:
            commit = rng.random() < 0.5
            end(log, pid, commit=commit)
            if not commit:
                aborted |= set(owned[pid])
            del open_at[pid], owned[pid]
        else:
            sequence = sequences.get(pid, 0)
            at = put(log, 2, pid=pid, epoch=0, sequence=sequence, transactional=True).base_offset
            sequences[pid] = sequence + 2
            open_at.setdefault(pid, at)
            owned.setdefault(pid, []).extend((at, at + 1))
        lso = min(open_at.values(), default=log.log_end_offset)
        assert log.last_stable_offset == lso
        start = rng.randrange(lso + 1)
        piece = read(log, start, 1 << 20, committed=True)
        read_offsets = [o for o in offsets(piece.data) if o >= start]
        assert all(o < lso for o in read_offsets)
        hidden = {a.producer_id: a for a in piece.aborted or []}
        assert all(a.first_offset <= (read_offsets[-1] if read_offsets else start) for a in hidden.values())


def visible(log: object, start: int = 0) -> list[int]:
    """Return the offsets of the data records that a read_committed consumer delivers, filtered as by the Java client."""
    from ottla.protocol.markers import read_marker

    delivered: list[int] = []
    at = start
    while True:
        piece = read(log, at, 500, committed=True)  # type: ignore[arg-type]
        waiting = sorted((a.first_offset, a.producer_id) for a in piece.aborted or [])
        dropped: set[int] = set()
        moved = False
        for position, h in batches(piece.data):
            raw = piece.data[position : position + h.size_bytes]
            while waiting and waiting[0][0] <= h.last_offset:
                dropped.add(waiting.pop(0)[1])
            at, moved = h.next_offset, True
            if h.is_control:
                marker = read_marker(raw, h)
                if marker is not None and not marker.commit:
                    dropped.discard(h.producer_id)
            elif h.producer_id not in dropped:
                delivered += range(h.base_offset, h.next_offset)
        if not moved:
            return delivered


def test_read_committed_consumer_gets_exactly_the_committed_records(logs: Logs) -> None:
    rng = random.Random(11)
    log = logs.new()
    sequences = dict.fromkeys(range(3), 0)
    mine: dict[int, list[int]] = {}
    committed: list[int] = []
    for _ in range(200):
        pid = rng.randrange(3)
        if mine.get(pid) and rng.random() < 0.4:
            commit = rng.random() < 0.6
            end(log, pid, commit=commit)
            committed += mine.pop(pid) if commit else []
            mine.pop(pid, None)
        else:
            at = put(log, 1, pid=pid, epoch=0, sequence=sequences[pid], transactional=True).base_offset
            sequences[pid] += 1
            mine.setdefault(pid, []).append(at)
    for pid in list(mine):
        end(log, pid, commit=True)
        committed += mine.pop(pid)
    assert visible(log) == sorted(committed)


def test_abort_marker_without_records_adds_no_transaction_index_entry(logs: Logs) -> None:
    log = logs.new()
    end(log, 9, commit=False)
    assert log.last_stable_offset == log.log_end_offset == 1
    assert [list(s.txn_index) for s in log.segments] == [[]]


def test_offset_lookup_by_timestamp_finds_records(logs: Logs) -> None:
    log = logs.new()
    for i in range(50):
        put(log, 2, now_ms=NOW_MS + 10 * i)
    timestamped = run(offset_for_timestamp(log, NOW_MS + 101, log.log_end_offset))
    assert timestamped is not None
    assert (timestamped.offset, timestamped.timestamp_ms) == (22, NOW_MS + 110)
    assert run(offset_for_timestamp(log, NOW_MS + 500, log.log_end_offset)) is None
    largest = run(offset_of_max_timestamp(log, log.log_end_offset))
    assert largest is not None
    assert largest.offset == 98


def test_segments_roll_after_segment_ms(logs: Logs) -> None:
    log = logs.new(LogConfig(segment_ms=1_000))
    put(log, now_ms=NOW_MS)
    put(log, now_ms=NOW_MS + 999)
    assert len(log.segments) == 1
    put(log, now_ms=NOW_MS + 1_500)
    assert [s.base_offset for s in log.segments] == [0, 2]


def test_retention_deletes_segments_by_size_and_time(logs: Logs) -> None:
    log = logs.new(LogConfig(segment_bytes=1_000, retention_bytes=3_000, retention_ms=-1))
    for _ in range(100):
        put(log)
    gone = delete_old(log, NOW_MS, 100)
    assert gone
    assert all(path.endswith(".deleted") for path in gone)
    assert 2_000 <= log.size_bytes <= 4_000
    assert log.log_start_offset == log.segments[0].base_offset > 0
    log.config = LogConfig(segment_bytes=1_000, retention_ms=1_000)
    delete_old(log, NOW_MS + 2_000, 100)
    assert log.log_start_offset == log.log_end_offset == 100


@pytest.mark.entry("STO-26")
def test_delete_records_moves_the_log_start_offset(logs: Logs) -> None:
    log = logs.new()
    for _ in range(60):
        put(log)
    put(log, 1, pid=1, epoch=0, sequence=0, transactional=True)
    log.delete_records(30)
    assert log.log_start_offset == 30
    paths = delete_old(log, NOW_MS, 1)
    assert [p.rpartition("/")[2] for p in paths if ".log" in p] == ["00000000000000000000.log.deleted"], (
        "segments are deleted one at a time"
    )
    while delete_old(log, NOW_MS, 1):
        pass
    assert log.segments[0].base_offset <= 30 < log.segments[1].base_offset
    log.delete_records(61)
    assert log.last_stable_offset == 61
    end(log, 1, commit=True)
    assert log.last_stable_offset == 62


def test_batches_above_the_message_or_segment_size_are_refused(logs: Logs) -> None:
    log = logs.new(LogConfig(max_message_bytes=200))
    with pytest.raises(KafkaError, match=Code.MESSAGE_TOO_LARGE.name):
        put(log, 50)
    log = logs.new(LogConfig(segment_bytes=200))
    with pytest.raises(KafkaError, match=Code.RECORD_LIST_TOO_LARGE.name):
        put(log, 50)


def test_append_returns_the_append_time_for_message_timestamp_type_log_append_time(logs: Logs) -> None:
    log = logs.new(LogConfig(message_timestamp_type="LogAppendTime"))
    assert put(log, now_ms=NOW_MS).log_append_time_ms == NOW_MS
    assert logs.new(SMALL).log_end_offset == 0
