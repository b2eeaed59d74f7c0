"""A follower's log files equal its leader's byte for byte. The follower refuses records that do not continue its log."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import assign, build_batch
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.following import UnexpectedOffset, append_as_follower
from ottla.storage.log import Log
from ottla.storage.reading import read
from ottla.storage.truncation import truncate_fully_and_start_at
from tests.support.logs import NOW_MS, SMALL, append, busy, put, state, stored

COMPACTED = LogConfig(cleanup_policy=("compact",), segment_bytes=1_000)


def new(config: LogConfig = SMALL) -> Log:
    return Log(MemoryFilesystem(), "/t-0", "t", 0, config, bytes(16))


def fetch(leader: Log, follower: Log, max_bytes: int = 1 << 20) -> int:
    piece = read(leader, follower.log_end_offset, max_bytes, committed=False, to_end=True)
    return append_as_follower(follower, piece.data, leader.leader_epoch, NOW_MS)


def follow(leader: Log, follower: Log, max_bytes: int = 1 << 20) -> None:
    while follower.log_end_offset < leader.log_end_offset:
        assert fetch(leader, follower, max_bytes)


def files(log: Log) -> dict[str, bytes]:
    for segment in log.segments:
        segment.flush_indexes()
    assert isinstance(log.fs, MemoryFilesystem)
    return {path: bytes(data) for path, data in log.fs.files.items()}


def batch(base_offset: int, epoch: int = 0, count: int = 1) -> bytearray:
    raw = build_batch([(b"k", b"v" * 30)] * count, NOW_MS)
    assign(raw, base_offset, epoch)
    return raw


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_follower_files_equal_those_of_its_leader(max_bytes: int, seed: int) -> None:
    leader, follower = new(), new()
    for epoch in range(4):
        leader.leader_epoch = epoch
        busy(leader, 60, seed=seed * 10 + epoch, first_pid=epoch * 10)
        follow(leader, follower, max_bytes)
    assert len(leader.segments) > 5
    assert any(s.txn_index.stored for s in leader.segments)
    follower.high_watermark = follower.log_end_offset
    assert state(follower) == state(leader)
    assert files(follower) == files(leader)


def test_uncommitted_marker_holds_back_the_last_stable_offset() -> None:
    leader, follower = new(), new()
    busy(leader, 100)
    follow(leader, follower)
    reached = set()
    rng = random.Random(1)
    while follower.high_watermark < follower.log_end_offset:
        follower.move_high_watermark(min(follower.high_watermark + rng.randrange(1, 4), follower.log_end_offset))
        expected = expected_last_stable(follower)
        assert follower.last_stable_offset == expected
        reached.add(expected < follower.high_watermark)
    assert True in reached


def expected_last_stable(log: Log) -> int:
    """Compute the last stable offset from the batches below the high watermark."""
    opened: dict[int, int] = {}
    for header, _ in stored(log):
        if header.next_offset > log.high_watermark:
            break
        if header.is_control:
            opened.pop(header.producer_id, None)
        elif header.is_transactional:
            opened.setdefault(header.producer_id, header.base_offset)
    return min(opened.values(), default=log.high_watermark)


def test_follower_does_not_append_an_incomplete_batch() -> None:
    follower = new()
    whole, half = batch(0, count=3), batch(3)
    assert append_as_follower(follower, bytes(whole + half[:-1]), 0, NOW_MS) == len(whole)
    assert follower.log_end_offset == 3
    assert append_as_follower(follower, bytes(half[:40]), 0, NOW_MS) == 0


def test_follower_appends_a_compacted_log_with_its_offset_gaps() -> None:
    follower = new(COMPACTED)
    append_as_follower(follower, bytes(batch(2) + batch(7) + batch(20)), 0, NOW_MS)
    assert [h.base_offset for h, _ in stored(follower)] == [2, 7, 20]
    assert follower.log_end_offset == 21


@pytest.mark.parametrize(
    ("records", "error"),
    [
        ([batch(0, epoch=2)], UnexpectedOffset),
        ([batch(5, epoch=2), batch(4, epoch=2)], UnexpectedOffset),
        ([batch(5, epoch=2), batch(5, epoch=2)], UnexpectedOffset),
        ([batch(5 + (1 << 31), epoch=2)], UnexpectedOffset),
        ([batch(5, epoch=2), batch(6, epoch=2)[:-1] + b"?"], KafkaError),
        ([batch(5, epoch=3), batch(6, epoch=2)], KafkaError),
        ([batch(5, epoch=1)], KafkaError),
    ],
)
def test_follower_refuses_non_contiguous_batches_without_a_change(records: list[bytes], error: type[Exception]) -> None:
    follower = new()
    append_as_follower(follower, bytes(batch(0, epoch=2, count=5)), 9, NOW_MS)
    before = files(follower), state(follower)
    with pytest.raises(error) as raised:
        append_as_follower(follower, b"".join(records), 9, NOW_MS)
    assert not isinstance(raised.value, KafkaError) or raised.value.code is Code.CORRUPT_MESSAGE
    assert (files(follower), state(follower)) == before
    append_as_follower(follower, bytes(batch(5, epoch=2)), 9, NOW_MS)


def test_follower_does_not_append_batches_of_a_later_leader_epoch() -> None:
    """KAFKA-18723: a fetch response of a former leader may contain batches with later leader epochs."""
    follower = new()
    append_as_follower(follower, bytes(batch(0, epoch=1) + batch(1, epoch=3) + batch(2, epoch=1)), 2, NOW_MS)
    assert follower.log_end_offset == 1
    assert follower.epochs.entries == [(1, 0)]


def test_empty_follower_begins_with_the_batch_that_contains_the_leaders_log_start() -> None:
    leader, follower = new(), new()
    append(leader, build_batch([(b"k", b"v")] * 10, NOW_MS))
    put(leader, 2)
    leader.delete_records(4)
    truncate_fully_and_start_at(follower, 4, NOW_MS)
    follow(leader, follower)
    assert (follower.log_start_offset, follower.log_end_offset) == (0, 12)
    assert [h.base_offset for h, _ in stored(follower)] == [0, 10]
