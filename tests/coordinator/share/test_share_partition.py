"""Share partitions: acquired batches, throttling, persisted state, lock timeouts, and the start offset."""

from __future__ import annotations

import msgspec
import pytest

from ottla.coordinator.share_state.acquisition import (
    AbortedTransaction,
    AcquiredRecords,
    AcquireRequest,
    FetchedBatch,
    aborted_batches,
)
from ottla.coordinator.share_state.batches import StateBatch
from ottla.coordinator.share_state.changes import DELIVERED_TOO_OFTEN, REJECTED, DeadLetters, SharePartitionConfig
from ottla.coordinator.share_state.partition import Acknowledgement, ShareChange, SharePartition
from ottla.coordinator.share_state.requests import StateRead
from ottla.coordinator.share_state.states import AcknowledgeType, RecordState
from ottla.protocol.errors import Code, KafkaError

CONFIG = SharePartitionConfig(lock_duration_ms=1_000, max_delivery_count=5, max_record_locks=100)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def fresh(config: SharePartitionConfig = CONFIG) -> SharePartition:
    return SharePartition.load(StateRead(3, -1), 0, 7, config)


def acquire(
    partition: SharePartition,
    *batches: tuple[int, int],
    member: str = "a",
    max_records: int = 500,
    batch_size: int = 500,
    is_record_limit: bool = False,
    now_ms: int = 0,
) -> list[tuple[int, ...]]:
    fetched = [FetchedBatch(*batch) for batch in batches]
    request = AcquireRequest(member, partition.next_fetch_offset(), fetched, max_records, batch_size, is_record_limit)
    return [tuple(acquired) for acquired in partition.acquire(request, now_ms)]


def acknowledge(partition: SharePartition, first: int, last: int, *types: int, member: str = "a", now_ms: int = 0) -> ShareChange:
    change = partition.acknowledge(member, [Acknowledgement(first, last, types)], now_ms)
    partition.apply(change)
    return change


def states(partition: SharePartition) -> list[tuple[int, int, str, int]]:
    return [(first, last, status.state.name, status.delivery_count) for first, last, status in partition.statuses()]


def test_share_acquisition_splits_only_at_log_batch_boundaries() -> None:
    partition = fresh()
    assert acquire(partition, (0, 9), (10, 19), (20, 29), max_records=15, batch_size=5) == [(0, 9, 1), (10, 19, 1)]
    assert partition.next_fetch_offset() == 20
    assert acquire(partition, (20, 29), max_records=1) == [(20, 29, 1)]


@pytest.mark.parametrize("batch_size", [1, 0, -1, -(1 << 31)])
def test_small_share_batch_size_acquires_each_log_batch_separately(batch_size: int) -> None:
    partition = fresh()
    assert acquire(partition, (0, 9), (10, 19), batch_size=batch_size) == [(0, 9, 1), (10, 19, 1)]
    assert states(partition) == [(0, 9, "ACQUIRED", 1), (10, 19, "ACQUIRED", 1)]


def test_share_record_limit_mode_splits_batches_at_the_limit() -> None:
    partition = fresh()
    assert acquire(partition, (0, 9), (10, 19), max_records=12, is_record_limit=True) == [(0, 11, 1)]
    assert partition.next_fetch_offset() == 12
    assert acquire(partition, (10, 19), max_records=3, is_record_limit=True, member="b") == [(12, 14, 1)]
    acknowledge(partition, 0, 11, ACCEPT)
    assert acquire(partition, (10, 19), (20, 29), max_records=7, is_record_limit=True) == [(15, 19, 1), (20, 21, 1)]


def test_released_share_records_are_delivered_first_to_any_member() -> None:
    partition = fresh()
    acquire(partition, (0, 9), (10, 19), batch_size=10)
    change = acknowledge(partition, 3, 5, RELEASE)
    assert change.write is not None
    assert change.write.state_batches == (StateBatch(3, 5, RecordState.AVAILABLE, 1),)
    assert (change.write.state_epoch, change.write.leader_epoch, change.write.start_offset) == (3, 7, 0)
    assert partition.next_fetch_offset() == 3
    assert acquire(partition, (0, 9), (10, 19), (20, 24), member="b") == [(3, 5, 2), (20, 24, 1)]


def test_share_partition_start_offset_moves_past_finished_records() -> None:
    partition = fresh()
    acquire(partition, (0, 9), (10, 19), batch_size=10)
    change = acknowledge(partition, 2, 9, *[ACCEPT, REJECT] * 4)
    assert change.write is not None
    assert (partition.start_offset, partition.delivery_complete_count, change.write.delivery_complete_count) == (0, 8, 8)
    acknowledge(partition, 0, 1, ACCEPT)
    assert (partition.start_offset, partition.end_offset, partition.delivery_complete_count) == (10, 19, 0)
    acknowledge(partition, 10, 19, ACCEPT)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (20, 20, 20)
    assert acknowledge(partition, 0, 19, ACCEPT).write is None, "records below the start offset are finished"


def test_partly_invalid_share_acknowledgement_changes_nothing() -> None:
    partition = fresh()
    acquire(partition, (0, 9))
    acquire(partition, (10, 19), member="b")
    before = states(partition)
    for first, last, types, code in (
        (0, 19, [ACCEPT], Code.INVALID_RECORD_STATE),
        (5, 25, [ACCEPT], Code.INVALID_REQUEST),
        (30, 31, [ACCEPT], Code.INVALID_REQUEST),
        (0, 1, [ACCEPT, 9], Code.INVALID_REQUEST),
        (0, 2, [ACCEPT, ACCEPT], Code.INVALID_REQUEST),
        (1, 0, [ACCEPT], Code.INVALID_REQUEST),
        (0, 1, [], Code.INVALID_REQUEST),
    ):
        wrong = [Acknowledgement(9, 9, [RENEW]), Acknowledgement(3, 3, [ACCEPT]), Acknowledgement(first, last, types)]
        with pytest.raises(KafkaError) as raised:
            partition.acknowledge("a", wrong, 0)
        assert raised.value.code is code, (first, last, types)
    twice = [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(4, 5, [ACCEPT])]
    with pytest.raises(KafkaError):
        partition.acknowledge("a", twice, 0)
    assert states(partition) == before
    with pytest.raises(KafkaError):
        fresh().acknowledge("a", [Acknowledgement(0, 0, [ACCEPT])], 0)


def test_outdated_share_partition_change_is_not_applied() -> None:
    partition = fresh()
    acquire(partition, (0, 9))
    change = partition.acknowledge("a", [Acknowledgement(0, 4, [ACCEPT])], 0)
    partition.apply(partition.release("a"))
    with pytest.raises(AssertionError, match="revision"):
        partition.apply(change)


def test_share_acquisition_locks_time_out_unless_renewed() -> None:
    partition = fresh()
    acquire(partition, (0, 9), now_ms=100)
    assert acknowledge(partition, 0, 4, RENEW, now_ms=600).write is None
    assert not partition.has_timed_out(1_099)
    assert partition.has_timed_out(1_100)
    change = partition.time_out(1_100)
    assert change.write is not None
    assert change.write.state_batches == (StateBatch(5, 9, RecordState.AVAILABLE, 1),)
    partition.apply(change)
    assert not partition.has_timed_out(1_599)
    partition.apply(partition.time_out(1_600))
    assert states(partition) == [(0, 9, "AVAILABLE", 1)]
    partition.config = msgspec.structs.replace(CONFIG, is_renewal_enabled=False)
    acquire(partition, (0, 9))
    with pytest.raises(KafkaError, match="Renewing"):
        partition.acknowledge("a", [Acknowledgement(0, 0, [RENEW])], 0)


def test_share_record_is_archived_after_the_delivery_count_limit() -> None:
    partition = fresh(SharePartitionConfig(max_delivery_count=2))
    acquire(partition, (0, 0))
    partition.apply(partition.release("a"))
    assert acquire(partition, (0, 0), member="b") == [(0, 0, 2)]
    change = partition.release("b")
    assert change.write is not None
    assert change.write.state_batches == (StateBatch(0, 0, RecordState.ARCHIVED, 2),)
    partition.apply(change)
    assert (partition.start_offset, partition.next_fetch_offset()) == (1, 1)


def test_repeatedly_released_share_records_are_delivered_in_smaller_batches() -> None:
    """Smaller batches keep one bad record from blocking adjacent records. With a limit of 5, batches shrink from delivery 4 on."""
    partition = fresh()
    given = []
    for _ in range(4):
        given.append(acquire(partition, (0, 15)))
        partition.apply(partition.release("a"))
    assert given == [[(0, 15, 1)], [(0, 15, 2)], [(0, 15, 3)], [(0, 7, 4)]]
    # At their last delivery, records are delivered one by one.
    assert [acquire(partition, (0, 15)) for _ in range(2)] == [[(0, 0, 5)], [(1, 1, 5)]]


def test_share_record_lock_limit_stops_acquisition_of_new_records() -> None:
    partition = fresh(SharePartitionConfig(max_record_locks=10))
    assert acquire(partition, (0, 5)) == [(0, 5, 1)]
    assert partition.can_acquire()
    assert acquire(partition, (6, 7), (8, 14), (15, 20)) == [(6, 14, 1)], "batches of the log are not split"
    assert not partition.can_acquire()
    assert acquire(partition, (15, 20)) == []
    acknowledge(partition, 2, 3, RELEASE)
    assert partition.can_acquire()
    assert acquire(partition, (0, 5), (6, 7), (8, 14), (15, 20), member="b") == [(2, 3, 2)], (
        "the limit does not apply to released records"
    )


def test_loaded_share_state_makes_undelivered_gaps_available() -> None:
    read = StateRead(3, 10, (StateBatch(12, 14, RecordState.ACKNOWLEDGED, 1), StateBatch(20, 21, RecordState.AVAILABLE, 2)))
    partition = SharePartition.load(read, 0, 7, CONFIG)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (10, 21, 10)
    assert acquire(partition, (8, 11), (12, 16), (17, 30)) == [(10, 11, 1), (15, 19, 1), (20, 21, 3), (22, 30, 1)]
    assert SharePartition.load(StateRead(0, -1), 42, 0, CONFIG).next_fetch_offset() == 42


def test_gap_in_a_loaded_share_state_is_acquired_in_several_batches() -> None:
    partition = SharePartition.load(StateRead(0, 0, (StateBatch(20, 29, RecordState.AVAILABLE, 1),)), 0, 0, CONFIG)
    assert acquire(partition, (0, 4), (5, 9), (10, 29), max_records=7) == [(0, 9, 1)]
    assert partition.next_fetch_offset() == 10
    assert acquire(partition, (10, 29), max_records=3, is_record_limit=True) == [(10, 12, 1)]
    assert acquire(partition, (10, 29), max_records=8, is_record_limit=True) == [(13, 19, 1), (20, 20, 2)]


@pytest.mark.parametrize("batches", [[(5, 4, 0, 1)], [(0, 5, 0, 1), (5, 6, 0, 1)], [(-5, 3, 0, 1)]])
def test_inconsistent_persisted_share_state_is_not_loaded(batches: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(KafkaError) as raised:
        SharePartition.load(StateRead(0, 0, tuple(StateBatch(*batch) for batch in batches)), 0, 0, CONFIG)
    assert raised.value.code is Code.UNKNOWN_SERVER_ERROR


def test_share_partition_skips_compacted_records() -> None:
    partition = fresh()
    acquire(partition, (0, 4), (5, 9))
    partition.apply(partition.release("a"))
    assert acquire(partition, (7, 9), (10, 12)) == [(7, 9, 2), (10, 12, 1)]
    assert partition.start_offset == 7


def test_log_start_offset_moves_the_share_partition_start() -> None:
    partition = fresh()
    acquire(partition, (0, 4), (5, 9), (10, 14), batch_size=5)
    acknowledge(partition, 5, 9, RELEASE)
    partition.move_log_start(7)
    assert (partition.start_offset, partition.next_fetch_offset()) == (7, 7)
    assert acknowledge(partition, 0, 4, ACCEPT).write is None
    partition.move_log_start(3)
    assert partition.start_offset == 7
    partition.move_log_start(12)
    change = acknowledge(partition, 10, 14, ACCEPT)
    assert change.write is not None
    assert change.write.state_batches == (StateBatch(12, 14, RecordState.ACKNOWLEDGED, 1),)
    partition.move_log_start(100)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (100, 100, 100)


def test_share_partition_does_not_deliver_records_of_aborted_transactions() -> None:
    partition = fresh()
    batches = [
        FetchedBatch(0, 4),
        FetchedBatch(5, 9, 1, is_transactional=True),
        FetchedBatch(10, 12, 2, is_transactional=True),
        FetchedBatch(13, 13, 1, is_transactional=True, is_abort_marker=True),
        FetchedBatch(14, 15, 1, is_transactional=True),
    ]
    aborted = [AbortedTransaction(1, 5)]
    assert aborted_batches(batches, aborted) == [batches[1]]
    acquired = partition.acquire(AcquireRequest("a", 0, batches, 500, 500, aborted=aborted), 0)
    assert acquired == [AcquiredRecords(0, 4, 1), AcquiredRecords(10, 15, 1)]
    acknowledge(partition, 0, 4, ACCEPT)
    assert partition.start_offset == 10
    # Aborted records do not block a partition, even if they exceed the limit of record locks.
    partition = fresh(SharePartitionConfig(max_record_locks=5))
    taken_back = [FetchedBatch(0, 9, 1, is_transactional=True)]
    assert partition.acquire(AcquireRequest("a", 0, taken_back, 500, 500, aborted=[AbortedTransaction(1, 0)]), 0) == []
    assert (partition.start_offset, partition.next_fetch_offset()) == (10, 10)


def test_dead_letter_is_written_before_its_record_is_archived() -> None:
    """A record that was rejected or delivered too often is ARCHIVING until its dead letter is written. A gap never gets a dead
    letter."""
    partition = fresh(msgspec.structs.replace(CONFIG, has_dead_letters=True, max_delivery_count=1))
    acquire(partition, (0, 9))
    change = partition.acknowledge(
        "a",
        [Acknowledgement(0, 3, [AcknowledgeType.REJECT]), Acknowledgement(4, 5, [AcknowledgeType.RELEASE, AcknowledgeType.GAP])],
        0,
    )
    assert change.dead_letters == [DeadLetters(0, 3, 1, REJECTED), DeadLetters(4, 4, 1, DELIVERED_TOO_OFTEN)]
    assert change.write is not None
    assert change.write.state_batches == (
        StateBatch(0, 4, RecordState.ARCHIVING, 1),
        StateBatch(5, 5, RecordState.ARCHIVED, 1),
    )
    partition.apply(change)
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 1)
    partition.apply(partition.dead_lettered(0, 3))
    assert partition.start_offset == 4
    assert partition.dead_lettered(0, 3).write is None, "a dead letter that is already written is not persisted again"
    assert partition.dead_letters() == [DeadLetters(4, 4, 1, DELIVERED_TOO_OFTEN)]
    partition.apply(partition.dead_lettered(4, 4))
    assert (partition.start_offset, partition.dead_letters()) == (6, [])


def test_loading_a_share_partition_resumes_unwritten_dead_letters() -> None:
    batches = (StateBatch(0, 1, RecordState.ARCHIVING, 2), StateBatch(2, 2, RecordState.ARCHIVING, 5))
    partition = SharePartition.load(StateRead(0, 0, batches), 0, 0, CONFIG)
    assert partition.dead_letters() == [DeadLetters(0, 1, 2, REJECTED), DeadLetters(2, 2, 5, DELIVERED_TOO_OFTEN)]
    assert (partition.start_offset, partition.next_fetch_offset()) == (0, 3)
