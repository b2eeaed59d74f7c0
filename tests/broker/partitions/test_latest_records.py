"""Loading a coordinator log without superseded records gives the state of a full replay."""

from __future__ import annotations

import functools
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.latest_records import latest_batches
from ottla.broker.partitions.partitions import Partition
from ottla.broker.partitions.runtime import Replaying, Runtime
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.member_ids import member_ids
from ottla.coordinator.group.records import (
    OFFSET_KEY_VERSIONS,
    CommittedOffset,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from ottla.coordinator.group.requests import GroupConfig
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TXN_KEY_VERSION, TxnMetadata, to_record, tombstone
from ottla.coordinator.transaction.requests import TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.records import EndTxnMarker, build_batch, build_marker, renew_crc
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged
from ottla.storage.log import Log
from ottla.storage.reading import all_batches
from tests.coordinator.group_world import FakeTopics
from tests.support.logs import NOW_MS

LOGGED = [s for s in TxnState if s not in (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE)]
NAMES = st.sampled_from(["a"] * 12 + ["b", "n" * 59, "n" * 60, "n" * 61, "n" * 62, "n" * 70, "n" * 300, "ü"])
STRANGE = [
    LogRecord(b"\0\7unknown", b"x"),
    LogRecord(b"\0", b"x"),
    LogRecord(b"", b"x"),
    LogRecord(None, b"x"),
    LogRecord(b"\0\0\0\1a", b"\0\1"),
    LogRecord(b"\0\0\0\1a", b"\0\x63" + b"x" * 40),
    LogRecord(b"\0\0\0\1a", b""),
    LogRecord(b"\0\1\0\1a\0\1t\0\0\0\0", b"\0\3zz"),
]


@st.composite
def transactions(draw: st.DrawFn) -> LogRecord:
    name, kind = draw(NAMES), draw(st.integers(0, 9))
    if kind == 0:
        return tombstone(name)
    if kind == 1:
        return draw(st.sampled_from(STRANGE))
    partitions = frozenset(("t", i) for i in range(draw(st.sampled_from([0, 1, 2, 40]))))
    state, number = draw(st.sampled_from(LOGGED)), draw(st.integers(0, 9))
    metadata = TxnMetadata(name, 7, number, 1_000, state, partitions, NOW_MS, NOW_MS + number)
    return to_record(metadata, flexible=draw(st.booleans()))


@st.composite
def offsets(draw: st.DrawFn) -> LogRecord:
    kind, key = draw(st.integers(0, 9)), (draw(NAMES), "t", draw(st.integers(0, 1)))
    if kind == 0:
        return offset_tombstone(key)
    if kind == 1:
        return draw(st.sampled_from(STRANGE))
    if kind == 2:
        return group_tombstone(key[0])
    if kind == 3:
        return group_record(ClassicGroup(key[0], generation=draw(st.integers(0, 2))), NOW_MS + draw(st.integers(0, 5)))
    return offset_record(key, CommittedOffset(draw(st.integers(0, 99)), -1, "m" * draw(st.sampled_from([0, 70])), NOW_MS))


def batch_of(draw: st.DrawFn, record: st.SearchStrategy[LogRecord]) -> bytearray:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return build_marker(EndTxnMarker(draw(st.integers(0, 1)), 0, draw(st.booleans()), 0), NOW_MS)
    count = 1 if kind > 2 else draw(st.integers(1, 4))
    compression = draw(st.sampled_from([1, 4])) if kind == 3 else 0
    pairs = [(r.key, r.value) for r in (draw(record) for _ in range(count))]
    if kind in (4, 5):
        return build_batch(pairs, NOW_MS, producer_id=kind - 4, producer_epoch=0, base_sequence=0, transactional=True)
    return build_batch(pairs, NOW_MS, compression=compression)


@st.composite
def logs(draw: st.DrawFn, record: st.SearchStrategy[LogRecord]) -> Log:
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig(segment_bytes=4_000))
    for _ in range(draw(st.integers(1, 40))):
        log.append_own(batch_of(draw, record), NOW_MS)
    return log


class Env:
    def now_ms(self) -> int:
        return NOW_MS

    def steady_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return float(NOW_MS)


def runtime(log: Log, replay: Any) -> Runtime:
    env = cast(Any, Env())
    partition = Partition(env, log, Barrier(None), DiskHealth(env, "/"), 0)
    return Runtime(env, partition, replay, Stepping(env, pytest.fail))


def of_transactions(log: Log, *, everything: bool) -> object:
    shard = TransactionShard(0, TxnConfig(), 2)
    loading = runtime(log, lambda record, offset, producer_id: shard.replay(record))
    loading.load() if everything else loading.load(Replaying(replaced=(TXN_KEY_VERSION,), start_over=shard.clear))
    return shard.ids, list(shard.unfinished()) and {m.transactional_id: m for m in shard.unfinished()}


def of_groups(log: Log, *, everything: bool) -> object:
    shard = GroupShard(0, GroupConfig(), FakeTopics(), member_ids(lambda: bytes(16)))
    loading = runtime(log, lambda record, offset, producer_id: shard.replay(record, offset, producer_id, NOW_MS))

    def on_marker(producer_id: int, commit: bool) -> None:
        shard.replay_marker(producer_id, commit=commit)

    if everything:
        loading.load(Replaying(on_marker=on_marker))
    else:
        loading.load(Replaying(on_marker=on_marker, replaced=OFFSET_KEY_VERSIONS, start_over=shard.clear))
    groups = {name: (g.generation, g.state, g.state_since_ms, sorted(g.members)) for name, g in shard.groups.items()}
    return groups, {g: shard.offsets.of_group(g) for g in shard.offsets.groups}, shard.offsets.pending


@pytest.mark.heavy
@settings(max_examples=60)
@given(logs(transactions()))
def test_replay_of_latest_records_gives_the_transactions_of_a_full_replay(log: Log) -> None:
    assert of_transactions(log, everything=False) == of_transactions(log, everything=True)


@pytest.mark.heavy
@settings(max_examples=60)
@given(logs(offsets()))
def test_replay_of_latest_records_gives_the_offsets_of_a_full_replay(log: Log) -> None:
    assert of_groups(log, everything=False) == of_groups(log, everything=True)


@pytest.mark.parametrize("piece", [68, 200, 1 << 20])
def test_superseded_coordinator_records_are_skipped_for_any_read_size(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.partitions.latest_records.PIECE_BYTES", piece)
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig(segment_bytes=20_000))
    for at in range(1_000):
        metadata = TxnMetadata(f"id-{at % 7}", 7, at, 1_000, TxnState.ONGOING, frozenset({("t", 0)}), NOW_MS, NOW_MS)
        record = to_record(metadata, flexible=True)
        log.append_own(build_batch([(record.key, record.value)], NOW_MS), NOW_MS)
    assert len(log.segments) > 3
    assert len(list(all_batches(log))) == 1_000
    assert sorted(header.base_offset for header, _ in latest_batches(log, (TXN_KEY_VERSION,))) == list(range(993, 1_000))


@pytest.mark.entry("STO-28")
def test_segment_with_offsets_outside_its_range_is_reported_as_damaged() -> None:
    """Only the file name shows where the first segment must begin, and its content is replaced with an older segment's content."""
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig(segment_bytes=2_000))
    while len(log.segments) < 4:
        log.append_own(build_batch([(b"\0\0\0\1a", b"value")], NOW_MS), NOW_MS)
    older, first = log.segments[0], log.segments[2]
    first.log.truncate(0)
    first.log.append(older.log.read(older.size_bytes, 0))
    log.segments = log.segments[2:]
    for read in (all_batches, functools.partial(latest_batches, kinds=(TXN_KEY_VERSION,))):
        with pytest.raises(Damaged, match=f"{first.base_offset:020}.log: the file cannot be read from byte 0 on: offset 0 follows"):
            list(read(log))


def log_of(*batches: bytearray) -> Log:
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig())
    for batch in batches:
        log.append_own(batch, NOW_MS)
    return log


def single(record: LogRecord, producer_id: int = -1) -> bytearray:
    pairs = [(record.key, record.value)]
    if producer_id < 0:
        return build_batch(pairs, NOW_MS)
    return build_batch(pairs, NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def test_tombstone_removes_pending_transactional_offsets_before_a_commit() -> None:
    key = ("g", "t", 0)
    record = offset_record(key, CommittedOffset(1, -1, "", NOW_MS))
    log = log_of(single(record, producer_id=5), single(offset_tombstone(key)), single(record))
    assert of_groups(log, everything=False) == of_groups(log, everything=True)
    assert of_groups(log, everything=False)[2] == {}  # type: ignore[index]


def test_previous_coordinator_record_is_used_when_the_newest_is_undecodable() -> None:
    record = to_record(TxnMetadata("a", 7, 3, 1_000, TxnState.EMPTY, frozenset(), -1, NOW_MS), flexible=True)
    log = log_of(single(record), single(LogRecord(record.key, b"\0\1")))
    assert of_transactions(log, everything=False) == of_transactions(log, everything=True)
    assert list(of_transactions(log, everything=False)[0]) == ["a"]  # type: ignore[index]


def test_previous_coordinator_batch_is_used_when_the_newest_is_undecodable() -> None:
    record = to_record(TxnMetadata("a", 7, 3, 1_000, TxnState.EMPTY, frozenset(), -1, NOW_MS), flexible=True)
    broken = single(record)
    # The record's value length exceeds the batch.
    broken[66 + 5] = 0x7E
    renew_crc(broken)
    log = log_of(single(record), broken)
    assert of_transactions(log, everything=False) == of_transactions(log, everything=True)
    assert list(of_transactions(log, everything=False)[0]) == ["a"]  # type: ignore[index]
