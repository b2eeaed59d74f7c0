"""Compaction keeps the newest record of each key, producer sequences and transaction outcomes."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import dataclass, field

import msgspec
import pytest

from ottla.protocol.errors import KafkaError
from ottla.protocol.record_stream import RecordTooLarge
from ottla.protocol.records import batches, build_batch, read_header, read_records
from ottla.protocol.rewriting import delete_horizon_ms
from ottla.protocol.steps import run
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Appended, Log
from ottla.storage.log_cleaner import Interrupted, clean, dirtiness, filthiest
from ottla.storage.reading import read
from ottla.storage.retention import delete_old
from tests.support.logs import NOW_MS, Logs, append, end, state, stored

COMPACTED = LogConfig(
    segment_bytes=1_000,
    index_interval_bytes=100,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
)
BUFFER_BYTES = 1 << 20


def write(
    log: Log,
    *pairs: tuple[str, str | None],
    pid: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    compression: int = 0,
    now_ms: int = NOW_MS,
) -> Appended:
    raw = build_batch(
        [(k.encode(), None if v is None else v.encode()) for k, v in pairs],
        now_ms,
        producer_id=pid,
        producer_epoch=0 if pid >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
        compression=compression,
    )
    return append(log, raw, now_ms)


def compact(log: Log, now_ms: int = NOW_MS, buffer_bytes: int = BUFFER_BYTES) -> None:
    """Roll the active segment, then clean the log until it has no dirty segments."""
    if log.active.size_bytes:
        log.roll(now_ms)
    while (dirty := run(filthiest([log], now_ms))) is not None:
        run(clean(dirty, now_ms, buffer_bytes))


def forget(log: Log) -> None:
    """Let the state of every producer expire."""
    run(log.producers.remove_expired(NOW_MS + 1, 0, 100))


def contents(log: Log) -> list[tuple[int, str, str | None]]:
    """Return offset, key and value of every stored data record."""
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for header, raw in stored(log)
        if not header.is_control
        for r in read_records(raw)
    ]


def committed(log: Log) -> dict[str, str]:
    """Return the last value of each key for a read_committed consumer that reads from the start."""
    newest: dict[str, str | None] = {}
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        part = read(log, offset, 1 << 20, committed=True)
        if not len(part.data):
            # Compaction may have removed the last batches below the last stable offset. A reader then waits there, as in Kafka.
            left = [h.base_offset for h, _ in stored(log) if offset <= h.last_offset < log.last_stable_offset]
            assert not left, f"no records at {offset}, below the last stable offset {log.last_stable_offset}"
            break
        aborted = sorted(part.aborted or [], key=lambda a: a.first_offset)
        ended: set[int] = set()
        for position, header in batches(part.data):
            offset = header.next_offset
            while aborted and aborted[0].first_offset <= header.last_offset:
                ended.add(aborted.pop(0).producer_id)
            if header.is_control:
                ended.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in ended):
                for r in read_records(part.data[position : position + header.size_bytes]):
                    newest[(r.key or b"").decode()] = None if r.value is None else r.value.decode()
    return {k: v for k, v in newest.items() if v is not None}


@pytest.fixture
def logs() -> Logs:
    return Logs(MemoryFilesystem(), "t-0")


@pytest.fixture
def log(logs: Logs) -> Log:
    return logs.new(COMPACTED)


@pytest.mark.entry("STO-26")
@pytest.mark.parametrize("compression", range(5))
def test_compaction_keeps_the_newest_record_of_each_key_at_its_offset(log: Log, compression: int) -> None:
    write(log, ("a", "1"), ("b", "1"), ("c", "1"), compression=compression, now_ms=NOW_MS - 5)
    write(log, ("a", "2"), ("d", "1"), compression=compression)
    compact(log)
    assert contents(log) == [(1, "b", "1"), (2, "c", "1"), (3, "a", "2"), (4, "d", "1")]
    header = stored(log)[0][0]
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 2, 2)
    assert header.max_timestamp_ms == NOW_MS - 5
    assert header.compression == compression


ROOMY = LogConfig(segment_bytes=64 << 20, max_message_bytes=64 << 20, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)


@pytest.mark.parametrize("compression", range(5))
def test_log_cleaner_copies_large_records_in_chunks(logs: Logs, compression: int) -> None:
    """Records larger than one chunk keep their timestamps although the delete horizon changes the batch's base timestamp."""
    log, value = logs.new(ROOMY), "v" * 1_500_000
    write(log, ("big", value + "1"), compression=compression)
    write(log, ("a", "1"), ("big", value + "2"), ("gone", None), ("b", "1"), ("late", value + "3"), compression=compression)
    write(log, ("a", "2"), ("late", None), compression=compression)
    before = {r.offset: r.timestamp_ms for _, raw in stored(log) for r in read_records(raw)}
    compact(log)
    assert contents(log) == [
        (2, "big", value + "2"),
        (3, "gone", None),
        (4, "b", "1"),
        (6, "a", "2"),
        (7, "late", None),
    ]
    assert delete_horizon_ms(stored(log)[0][0]) == NOW_MS + ROOMY.delete_retention_ms
    assert all(before[r.offset] == r.timestamp_ms for _, raw in stored(log) for r in read_records(raw))


@pytest.mark.smoke
def test_log_cleaner_cleans_a_decompression_bomb_in_bounded_memory(logs: Logs) -> None:
    log = logs.new(ROOMY)
    zeros = build_batch([(b"a", b"1"), (b"bomb", bytes(40 << 20))], NOW_MS, compression=4)
    append(log, zeros, NOW_MS)
    write(log, ("a", "2"))
    del zeros
    tracemalloc.start()
    compact(log)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert [(h.record_count, h.last_offset_delta) for h, _ in stored(log)] == [(1, 1), (1, 0)]
    write(log, ("bomb", "2"))
    compact(log)
    assert contents(log) == [(2, "a", "2"), (3, "bomb", "2")]


def test_record_larger_than_max_message_bytes_stops_compaction(log: Log) -> None:
    write(log, ("a", "1" * 100), ("a", "2"), compression=1)
    write(log, ("a", "1" * 100), ("a", "3"))
    log.config = msgspec.structs.replace(log.config, max_decompressed_message_bytes=50)
    with pytest.raises(RecordTooLarge):
        compact(log)
    log.config = msgspec.structs.replace(log.config, max_decompressed_message_bytes=200)
    compact(log)
    assert contents(log) == [(3, "a", "3")]


def test_batch_whose_records_are_all_retained_by_compaction_keeps_its_bytes(log: Log) -> None:
    write(log, ("a", "1"), ("b", "1"))
    before = stored(log)
    compact(log)
    assert stored(log) == before


def test_tombstones_are_kept_until_their_delete_horizon(log: Log) -> None:
    write(log, ("a", "1"), ("b", "1"))
    write(log, ("a", None), ("c", "1"))
    compact(log)
    assert contents(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert [delete_horizon_ms(h) for h, _ in stored(log)] == [None, NOW_MS + 1_000]
    assert [r.timestamp_ms for r in read_records(stored(log)[1][1])] == [NOW_MS, NOW_MS]
    write(log, ("x", "1"))
    compact(log, NOW_MS + 999)
    assert (2, "a", None) in contents(log)
    write(log, ("x", "2"))
    compact(log, NOW_MS + 1_000)
    assert contents(log) == [(1, "b", "1"), (3, "c", "1"), (5, "x", "2")]


@pytest.mark.entry("CRD-13")
def test_compaction_that_empties_the_last_batch_keeps_the_log_end_offset(log: Log) -> None:
    """An emptied last batch is kept, because readers must find the offset after it (KAFKA-17076)."""
    write(log, ("a", "1"))
    write(log, ("b", None))
    compact(log)
    write(log, ("a", "2"))
    compact(log, NOW_MS + 10_000)
    log, _ = Logs(log.fs, log.directory).open(clean=True, config=COMPACTED)
    assert log.log_end_offset == 3
    assert committed(log) == {"a": "2"}


@pytest.mark.entry("STO-15")
def test_compaction_removes_aborted_records_and_later_their_marker(log: Log) -> None:
    write(log, ("a", "1"))
    write(log, ("a", "lost"), pid=7, sequence=0, transactional=True)
    end(log, 7, commit=False)
    write(log, ("b", "1"))
    compact(log)
    # The aborted batch is kept without records, because it is the producer's last batch. Its marker and index entry are kept too.
    assert contents(log) == [(0, "a", "1"), (3, "b", "1")]
    assert [h.record_count for h, _ in stored(log)] == [1, 0, 1, 1]
    assert len(list(log.segments[0].txn_index)) == 1
    forget(log)
    # The cleaning pass that removes the batch keeps the marker unchanged. The next pass sets the marker's delete horizon.
    for value in ("2", "3"):
        write(log, ("b", value))
        compact(log)
    assert [(h.base_offset, h.is_control, delete_horizon_ms(h)) for h, _ in stored(log)] == [
        (0, False, None),
        (2, True, NOW_MS + 1_000),
        (5, False, None),
    ]
    write(log, ("b", "4"))
    compact(log, NOW_MS + 1_000)
    assert [h.base_offset for h, _ in stored(log)] == [0, 6]


@pytest.mark.entry("STO-15")
def test_commit_marker_is_kept_as_long_as_its_records(log: Log) -> None:
    write(log, ("a", "1"), pid=7, sequence=0, transactional=True)
    end(log, 7, commit=True)
    forget(log)
    compact(log)
    compact(log, NOW_MS + 5_000)
    assert [h.is_control for h, _ in stored(log)] == [False, True]
    for value in ("2", "3"):
        write(log, ("a", value))
        compact(log, NOW_MS + 5_000)
    assert [delete_horizon_ms(h) for h, _ in stored(log)] == [NOW_MS + 6_000, None]
    write(log, ("a", "4"))
    compact(log, NOW_MS + 6_000)
    assert contents(log) == [(4, "a", "4")]
    assert not any(h.is_control for h, _ in stored(log))


@pytest.mark.entry("STO-14")
def test_compaction_removes_no_marker_for_a_record_with_an_equal_key(log: Log) -> None:
    write(log, ("a", "1"), pid=7, sequence=0, transactional=True)
    end(log, 7, commit=True)
    marker_key = bytes((0, 0, 0, 1)).decode()
    write(log, (marker_key, "x"))
    compact(log)
    assert [h.is_control for h, _ in stored(log)] == [False, True, False]


@pytest.mark.entry("STO-15")
def test_producer_sequence_is_kept_when_compaction_removes_its_records(logs: Logs, log: Log) -> None:
    write(log, ("a", "1"), pid=7, sequence=0)
    write(log, ("a", "2"), pid=7, sequence=1)
    write(log, ("a", "3"))
    compact(log)
    assert contents(log) == [(2, "a", "3")]
    for snapshot in [n for n in logs.fs.list_dir(logs.directory) if n.endswith(".snapshot")]:
        logs.fs.unlink(f"{logs.directory}/{snapshot}")
    again, _ = logs.open(clean=False, config=COMPACTED)
    assert again.producers.entries[7].last_sequence == 1
    assert write(again, ("a", "2"), pid=7, sequence=1).is_duplicate
    assert write(again, ("a", "4"), pid=7, sequence=2).base_offset == 3


@pytest.mark.entry("STO-16", "STO-25")
def test_records_after_the_last_stable_offset_are_not_compacted(log: Log) -> None:
    write(log, ("a", "1"))
    write(log, ("a", "2"))
    log.roll(NOW_MS)
    write(log, ("a", "3"), pid=7, sequence=0, transactional=True)
    write(log, ("a", "4"))
    log.roll(NOW_MS)
    write(log, ("a", "5"))
    compact(log)
    assert contents(log) == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4"), (4, "a", "5")]
    assert log.last_stable_offset == log.first_dirty_offset == 2
    end(log, 7, commit=False)
    compact(log)
    assert committed(log) == {"a": "5"}


def test_compaction_removes_records_of_an_aborted_transaction_from_all_segments(log: Log) -> None:
    write(log, ("keep", "1"))
    for at in range(3):
        write(log, (f"k{at}", "lost"), pid=7, sequence=at, transactional=True)
        log.roll(NOW_MS)
    end(log, 7, commit=False)
    write(log, ("k0", "1"), pid=7, sequence=3, transactional=True)
    end(log, 7, commit=True)
    compact(log)
    assert contents(log) == [(0, "keep", "1"), (5, "k0", "1")]
    assert committed(log) == {"keep": "1", "k0": "1"}


def test_compaction_merges_segments_up_to_segment_bytes(log: Log) -> None:
    for at in range(60):
        write(log, (f"k{at % 3}", "v" * 40))
    many = len(log.segments)
    assert many > 5
    compact(log)
    assert len(log.segments) == many + 1
    write(log, ("k0", "w"))
    compact(log)
    # The merged segment and the active segment remain.
    assert len(log.segments) == 2
    assert committed(log) == {"k0": "w", "k1": "v" * 40, "k2": "v" * 40}


def test_log_cleaner_with_a_full_offset_map_cleans_in_several_passes(log: Log) -> None:
    for at in range(40):
        write(log, (f"k{at % 20}", str(at)))
    compact(log, buffer_bytes=5 * 210)
    assert committed(log) == {f"k{i}": str(20 + i) for i in range(20)}
    assert len(contents(log)) == 20


def test_compaction_removes_records_without_a_key(log: Log) -> None:
    """Records without a key may have been written before the topic's cleanup policy was changed to compact."""
    raw = build_batch([(None, b"x"), (b"a", b"1")], NOW_MS)
    append(log, raw, NOW_MS)
    compact(log)
    assert contents(log) == [(1, "a", "1")]


@pytest.mark.parametrize(("ratio", "is_cleaned"), [(0.4, True), (0.6, False)])
def test_log_is_compacted_when_min_cleanable_dirty_ratio_is_exceeded(logs: Logs, ratio: float, is_cleaned: bool) -> None:
    log = logs.new(COMPACTED)
    write(log, ("a", "1"))
    compact(log)
    log.config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=ratio)
    write(log, ("b", "1"))
    log.roll(NOW_MS)
    assert (run(filthiest([log], NOW_MS)) is not None) == is_cleaned


def test_min_compaction_lag_delays_and_max_compaction_lag_forces_compaction(logs: Logs) -> None:
    log = logs.new(LogConfig(cleanup_policy=("compact",), min_compaction_lag_ms=1_000, max_compaction_lag_ms=5_000))
    write(log, ("a", "1"))
    log.roll(NOW_MS)
    write(log, ("a", "2"), now_ms=NOW_MS + 500)
    assert dirtiness(log, NOW_MS + 999) is None
    assert run(filthiest([log], NOW_MS + 1_000)) is not None
    log.config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5_000)
    assert run(filthiest([log], NOW_MS + 5_000)) is None
    assert run(filthiest([log], NOW_MS + 5_001)) is not None
    assert log.config.max_segment_ms == 5_000
    write(log, ("a", "3"), now_ms=NOW_MS + 6_000)
    assert log.active.base_offset == 2


def test_compaction_is_interrupted_when_segments_of_the_log_are_deleted(log: Log) -> None:
    for at in range(30):
        write(log, (f"k{at}", "v"))
    log.roll(NOW_MS)
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    steps = clean(dirty, NOW_MS, BUFFER_BYTES)
    aside = next(s for s in steps.__await__() if s is not None)
    aside()
    log.delete_records(log.segments[1].base_offset)
    delete_old(log, NOW_MS, 1)
    with pytest.raises(Interrupted):
        steps.send(None)
    compact(log)
    assert len(contents(log)) < 30


def test_unreadable_log_is_reported_and_not_compacted(log: Log) -> None:
    write(log, ("a", "1"))
    log.roll(NOW_MS)
    segment = log.segments[0]
    size = segment.size_bytes
    segment.log.truncate(size - 3)
    segment.log.append(b"\xff\xff\xff")
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    with pytest.raises(KafkaError):
        run(clean(dirty, NOW_MS, BUFFER_BYTES))
    assert log.segments[0] is segment
    assert segment.size_bytes == size


def visible(log: Log) -> tuple[object, ...]:
    """Return the state that readers and producers can observe.

    The transaction index is left out, because an entry may outlive its records. Only the last batch of each producer is
    compared, because cleaning keeps no earlier batches of a producer.
    """
    return *state(log, last_batches=1)[:4], committed(log)


@dataclass(slots=True)
class Shadow:
    """A model of the records that a log must contain."""

    newest: dict[str, str] = field(default_factory=dict)
    open: dict[int, dict[str, str | None]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def take(self, pairs: dict[str, str | None]) -> None:
        for key, value in pairs.items():
            if value is None:
                self.newest.pop(key, None)
            else:
                self.newest[key] = value


@pytest.mark.heavy
@pytest.mark.entry("STO-15")
@pytest.mark.parametrize("seed", range(25))
def test_compaction_of_random_logs_keeps_newest_values_and_producer_state(logs: Logs, seed: int) -> None:
    rng, shadow, now_ms = random.Random(seed), Shadow(), NOW_MS
    log = logs.new(COMPACTED)
    for at in range(300):
        now_ms += rng.randrange(100)
        pid = rng.choice([-1, 1, 2, 3])
        transactional = pid > 1
        # Each producer has its own keys, because concurrent transactions may end in a different order than they wrote.
        pairs = {f"{pid}-{rng.randrange(8)}": rng.choice([None, f"v{at}"]) for _ in range(rng.randrange(1, 4))}
        sequence = shadow.sequences.get(pid, 0) if pid >= 0 else -1
        write(log, *pairs.items(), pid=pid, sequence=sequence, transactional=transactional, now_ms=now_ms)
        shadow.sequences[pid] = sequence + len(pairs)
        if transactional:
            shadow.open.setdefault(pid, {}).update(pairs)
            if rng.random() < 0.5:
                commit = rng.random() < 0.6
                end(log, pid, commit=commit)
                done = shadow.open.pop(pid)
                if commit:
                    shadow.take(done)
        else:
            shadow.take(pairs)
        if rng.random() < 0.08:
            before = visible(log)
            compact(log, now_ms, rng.choice([BUFFER_BYTES, 1_000]))
            assert visible(log) == before
        if rng.random() < 0.05:
            before = visible(log)
            if rng.random() < 0.5:
                log.close()
                log, report = logs.open(clean=True, config=COMPACTED)
            else:
                log.abandon()
                log, report = logs.open(clean=False, config=COMPACTED)
            assert not report.losses
            assert visible(log) == before
    for pid in list(shadow.open):
        end(log, pid, commit=False)
        del shadow.open[pid]
    assert committed(log) == shadow.newest
    compact(log, now_ms)
    assert committed(log) == shadow.newest
    assert {read_header(raw).leader_epoch for _, raw in stored(log)} == {0}


@pytest.mark.parametrize("length", [0, 1 << 30, -1])
def test_unreadable_batch_header_fails_compaction_and_leaves_the_segment_unchanged(log: Log, length: int) -> None:
    """A scan ends at an unreadable header, so a segment rewritten from it would silently lose the batches after the header."""
    for number in range(3):
        write(log, (f"k{number}", "v"))
    log.roll(NOW_MS)
    segment = log.segments[0]
    raw = bytearray(segment.log.read(segment.size_bytes, 0))
    at = [position for position, _ in batches(raw)][1] + 8
    raw[at : at + 4] = length.to_bytes(4, "big", signed=True)
    segment.log.truncate(0)
    segment.log.append(bytes(raw))
    dirty = run(filthiest([log], NOW_MS))
    assert dirty is not None
    with pytest.raises(KafkaError, match="byte"):
        run(clean(dirty, NOW_MS, BUFFER_BYTES))
    assert log.segments[0] is segment
    assert segment.size_bytes == len(raw)
