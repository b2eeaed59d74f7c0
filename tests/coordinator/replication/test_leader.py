"""Decisions of a partition leader: in-sync replicas, high watermark, and responses to producers."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.replication.in_sync import GIVEN_UP, NEXT_STATES, VIEW_IS_OLD, IllegalIsrTransition, InSyncState, committed
from ottla.coordinator.replication.leader import (
    ACKS_ALL,
    NO_BROKER_EPOCH,
    EpochEnd,
    Fetched,
    Leader,
    check_leader_epoch,
    divergence,
    new_leader,
    sole_leader,
)
from ottla.protocol.errors import Code, KafkaError

LAG_MS = 30_000
NOW_MS = 1_000_000


class LeaderWithFollowers:
    """Leader 1 with the followers 2 and 3, and a log of 10 records."""

    def __init__(self, in_sync: tuple[int, ...] = (1, 2, 3), min_in_sync: int = 2, start_offset: int = 0) -> None:
        self.live: dict[int, int] = {1: 11, 2: 12, 3: 13}
        self.now_ms = NOW_MS
        self.end = 10
        self.hw = 0
        self.leader: Leader = new_leader(
            broker_id=1,
            leader_epoch=5,
            start_offset=start_offset,
            replicas=(1, 2, 3),
            in_sync=in_sync,
            partition_epoch=4,
            max_lag_ms=LAG_MS,
            min_in_sync=min_in_sync,
            live_epoch=self.live.get,
            now_ms=self.now_ms,
        )

    def fetch(self, broker_id: int, offset: int, epoch: int | None = None) -> Fetched:
        fetched = self.leader.fetched(
            broker_id,
            fetch_offset=offset,
            start_offset=0,
            broker_epoch=self.live.get(broker_id, 0) if epoch is None else epoch,
            log_end_offset=self.end,
            high_watermark=self.hw,
            now_ms=self.now_ms,
        )
        self.hw = fetched.high_watermark
        return fetched

    def shrink(self) -> Any:
        return self.leader.shrink(self.end, self.now_ms)

    def advance(self) -> int:
        self.hw = self.leader.high_watermark(self.end, self.hw, self.now_ms)
        return self.hw


def test_high_watermark_is_the_lowest_end_offset_of_in_sync_replicas() -> None:
    world = LeaderWithFollowers()
    world.fetch(2, 7)
    assert world.hw == 0, "broker 3 has not fetched yet"
    world.fetch(3, 4)
    assert world.hw == 4
    world.fetch(3, 9)
    assert world.hw == 7
    world.fetch(2, 10)
    world.fetch(3, 10)
    assert world.hw == 10


def test_high_watermark_never_decreases() -> None:
    world = LeaderWithFollowers()
    world.fetch(2, 8)
    world.fetch(3, 8)
    world.fetch(2, 3)
    assert world.hw == 8


def test_out_of_sync_follower_does_not_affect_the_high_watermark() -> None:
    world = LeaderWithFollowers(in_sync=(1, 2))
    del world.live[3]
    world.fetch(3, 10, epoch=13)
    assert world.hw == 0
    world.fetch(3, 1, epoch=13)
    world.fetch(2, 10)
    assert world.hw == 10


def test_follower_eligible_for_the_isr_holds_back_the_high_watermark() -> None:
    """Under load, a follower could never reach a high watermark that advances without it (Partition.maybeIncrementLeaderHW)."""
    world = LeaderWithFollowers(in_sync=(1, 2))
    change = world.fetch(3, 10).expansion
    assert change is not None
    assert not world.leader.alter_refused(change, Code.INELIGIBLE_REPLICA)
    world.end = 15
    world.fetch(2, 15)
    assert world.hw == 10
    world.live.pop(3)
    assert world.advance() == 15, "a fenced follower is not eligible for the in-sync set"


def test_lagging_replica_holds_back_the_high_watermark_until_removed() -> None:
    world = LeaderWithFollowers()
    world.fetch(2, 10)
    world.fetch(3, 6)
    world.now_ms += LAG_MS + 1
    world.fetch(2, 10)
    change = world.shrink()
    assert change.proposed == {1, 2}
    assert world.advance() == 6
    assert world.leader.altered(change, change.proposed, 5, 5)
    assert world.advance() == 10


def test_replica_that_joins_the_isr_holds_back_the_high_watermark_before_confirmation() -> None:
    world = LeaderWithFollowers(in_sync=(1, 2))
    assert world.fetch(3, 10).expansion is not None
    world.end = 12
    world.now_ms += LAG_MS + 1
    world.fetch(2, 12)
    assert world.hw == 10


def test_high_watermark_does_not_advance_below_min_insync_replicas() -> None:
    world = LeaderWithFollowers(in_sync=(1,), min_in_sync=2)
    assert world.advance() == 0
    assert LeaderWithFollowers(in_sync=(1,), min_in_sync=1).advance() == 10


def test_high_watermark_of_a_sole_replica_advances_at_once_with_any_min_insync_replicas() -> None:
    leader = sole_leader(1, 0, 0)
    assert leader.is_sole
    assert leader.high_watermark(10, 4, NOW_MS) == 10
    leader.min_in_sync = 3
    leader.check_may_append(ACKS_ALL)
    assert leader.high_watermark(11, 10, NOW_MS) == 11
    assert sole_leader(1, 0, 0).in_sync is leader.in_sync, "partitions with equal in-sync state share one object"


@pytest.mark.parametrize(
    ("offsets", "late_ms", "is_out"),
    [
        ([10], LAG_MS, False),
        ([10], LAG_MS + 1, False),
        ([9], LAG_MS, False),
        ([9], LAG_MS + 1, True),
        ([], LAG_MS, False),
        ([], LAG_MS + 1, True),
    ],
)
def test_replica_that_lags_too_long_leaves_the_in_sync_set(offsets: list[int], late_ms: int, is_out: bool) -> None:
    """A follower that has reached the log end stays in sync, however long it does not fetch."""
    world = LeaderWithFollowers(in_sync=(1, 2))
    for offset in offsets:
        world.fetch(2, offset)
    world.now_ms += late_ms
    assert (world.shrink() is not None) is is_out


def test_replica_at_an_earlier_log_end_counts_as_caught_up_since_the_time_of_that_log_end() -> None:
    """Under load, a follower never reaches the current log end, so the log end at its previous fetch counts (KIP-16)."""
    world = LeaderWithFollowers(in_sync=(1, 2))
    for _ in range(10):
        world.now_ms += LAG_MS // 2
        before, world.end = world.end, world.end + 10
        world.fetch(2, before)
        assert world.shrink() is None
    for _ in range(4):
        world.now_ms += LAG_MS // 2
        world.end += 10
        world.fetch(2, world.leader.follower(2).end_offset + 5)
    assert world.shrink() is not None


def test_replica_joins_the_in_sync_set_at_the_high_watermark_and_the_epoch_start() -> None:
    world = LeaderWithFollowers(in_sync=(1, 2), start_offset=8)
    world.fetch(2, 6)
    assert world.hw == 6
    assert world.fetch(3, 7).expansion is None, "the follower may still have to truncate its log"
    expansion = world.fetch(3, 8).expansion
    assert expansion is not None
    assert (expansion.committed, expansion.proposed, expansion.maximal) == ({1, 2}, {1, 2, 3}, {1, 2, 3})
    assert world.leader.broker_epochs(expansion) == {1: 11, 2: 12, 3: 13}
    assert world.fetch(3, 9).expansion is None, "only one change may be in flight"
    assert world.shrink() is None


def test_fenced_broker_does_not_join_the_in_sync_set() -> None:
    world = LeaderWithFollowers(in_sync=(1, 2))
    del world.live[3]
    assert world.fetch(3, 10, epoch=13).expansion is None
    world.live[3] = 13
    assert world.fetch(3, 10).expansion is not None


def test_earlier_incarnation_of_a_broker_does_not_join_the_in_sync_set() -> None:
    """KIP-903: a restarted broker may have lost the records of its earlier incarnation."""
    world = LeaderWithFollowers(in_sync=(1, 2), start_offset=10)
    world.fetch(3, 9)
    world.live[3] = 99
    with pytest.raises(KafkaError) as raised:
        world.fetch(3, 10, epoch=13)
    assert raised.value.code is Code.NOT_LEADER_OR_FOLLOWER
    assert world.leader.follower(3).end_offset == 9
    world.live[3] = 13
    assert world.fetch(3, 10, epoch=14).expansion is None, "the metadata does not know this incarnation yet"
    assert world.fetch(3, 10, epoch=NO_BROKER_EPOCH).expansion is not None, "brokers older than KIP-903 send no broker epoch"


def test_fetch_of_a_broker_that_is_not_a_replica_gets_unknown_leader_epoch() -> None:
    with pytest.raises(KafkaError) as raised:
        LeaderWithFollowers().fetch(4, 0)
    assert raised.value.code is Code.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("code", [*GIVEN_UP, *VIEW_IS_OLD, Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER])
def test_error_code_of_alter_partition_decides_whether_the_request_is_retried(code: Code) -> None:
    world = LeaderWithFollowers(in_sync=(1, 2))
    change = world.fetch(3, 10).expansion
    assert change is not None
    again = world.leader.alter_refused(change, code)
    in_sync = world.leader.in_sync
    assert again is (code not in GIVEN_UP | VIEW_IS_OLD)
    assert in_sync.committed == {1, 2}
    assert in_sync.maximal == ({1, 2} if code in GIVEN_UP else {1, 2, 3}), "the controller may have applied the change"
    assert in_sync.is_in_flight is (code not in GIVEN_UP)
    world.leader.learned(frozenset({1, 2, 3}), 5)
    assert (world.leader.in_sync.committed, world.leader.in_sync.partition_epoch) == ({1, 2, 3}, 5)
    assert not world.leader.alter_refused(change, code), "newer metadata makes the response outdated"
    assert not world.leader.altered(change, frozenset({1}), 5, 9)


def test_alter_partition_responses_of_another_epoch_are_ignored() -> None:
    world = LeaderWithFollowers(in_sync=(1, 2))
    change = world.fetch(3, 10).expansion
    assert change is not None
    assert not world.leader.altered(change, frozenset({1, 2, 3}), 6, 5)
    assert not world.leader.altered(change, frozenset({1, 2, 3}), 5, 3)
    world.leader.learned(frozenset({1, 2}), 4)
    assert world.leader.in_sync is change, "metadata with an older or equal partition epoch changes nothing"
    assert world.leader.altered(change, frozenset({1, 2, 3}), 5, 5)


def test_illegal_isr_state_transitions_raise() -> None:
    base = committed(frozenset({1, 2}), 0)
    reached = {
        InSyncState.COMMITTED: base,
        InSyncState.PENDING_EXPANSION: base.with_replica(3),
        InSyncState.PENDING_SHRINK: base.without(frozenset({2})),
        InSyncState.AWAITING_METADATA: base.with_replica(3).refused(Code.FENCED_LEADER_EPOCH),
    }
    for state, in_sync in reached.items():
        assert in_sync.state is state
        for target, move in {
            InSyncState.PENDING_EXPANSION: lambda s: s.with_replica(4),
            InSyncState.PENDING_SHRINK: lambda s: s.without(frozenset({2})),
            InSyncState.AWAITING_METADATA: lambda s: s.refused(Code.FENCED_LEADER_EPOCH),
            InSyncState.COMMITTED: lambda s: s.now(frozenset({1}), 7),
        }.items():
            if target in NEXT_STATES[state]:
                assert move(in_sync).state is target
            else:
                with pytest.raises(IllegalIsrTransition):
                    move(in_sync)
    with pytest.raises(AssertionError, match="partition epoch"):
        base.now(frozenset({1}), 1).now(frozenset({1}), 0)


def test_leader_outside_the_in_sync_replicas_raises() -> None:
    with pytest.raises(AssertionError, match="is not in sync"):
        LeaderWithFollowers(in_sync=(2, 3))


def test_append_with_acks_all_is_refused_below_min_insync_replicas() -> None:
    leader = LeaderWithFollowers(in_sync=(1,), min_in_sync=2).leader
    with pytest.raises(KafkaError) as raised:
        leader.check_may_append(ACKS_ALL)
    assert raised.value.code is Code.NOT_ENOUGH_REPLICAS
    leader.check_may_append(1)
    leader.check_may_append(0)
    LeaderWithFollowers(in_sync=(1, 2), min_in_sync=2).leader.check_may_append(ACKS_ALL)


def test_min_insync_replicas_above_the_replica_count_is_reduced_to_it() -> None:
    LeaderWithFollowers(in_sync=(1, 2, 3), min_in_sync=9).leader.check_may_append(ACKS_ALL)


@pytest.mark.parametrize(
    ("acks", "high_watermark", "answer"),
    [(0, 0, Code.NONE), (1, 0, Code.NONE), (-1, 4, None), (-1, 5, Code.NONE), (-1, 6, Code.NONE)],
)
def test_produce_response_is_sent_at_once_or_at_the_high_watermark_depending_on_acks(
    acks: int, high_watermark: int, answer: Code | None
) -> None:
    assert LeaderWithFollowers().leader.answer_to(acks, 5, high_watermark) is answer


def test_acks_all_response_reports_too_few_replicas_after_append() -> None:
    world = LeaderWithFollowers(in_sync=(1, 2), min_in_sync=2)
    world.leader.in_sync = committed(frozenset({1}), 5)
    assert world.leader.answer_to(ACKS_ALL, 5, 5) is Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert world.leader.answer_to(ACKS_ALL, 6, 5) is None


@pytest.mark.parametrize(("asked", "code"), [(-1, None), (5, None), (4, Code.FENCED_LEADER_EPOCH), (6, Code.UNKNOWN_LEADER_EPOCH)])
def test_request_with_older_leader_epoch_is_fenced_and_with_newer_epoch_is_unknown(asked: int, code: Code | None) -> None:
    if code is None:
        check_leader_epoch(5, asked)
        return
    with pytest.raises(KafkaError) as raised:
        check_leader_epoch(5, asked)
    assert raised.value.code is code


@pytest.mark.parametrize(
    ("offset", "end", "diverging"),
    [
        (10, EpochEnd(3, 10), False),
        (9, EpochEnd(3, 10), False),
        (11, EpochEnd(3, 10), True),
        (10, EpochEnd(2, 10), True),
        (10, EpochEnd(2, 50), True),
    ],
)
def test_leader_detects_a_diverging_follower_by_epoch_end_offsets(offset: int, end: EpochEnd, diverging: bool) -> None:
    assert divergence(3, offset, end) == (end if diverging else None)


def test_fetch_with_a_last_fetched_epoch_unknown_to_the_leader_is_out_of_range() -> None:
    with pytest.raises(KafkaError) as raised:
        divergence(3, 10, EpochEnd(-1, -1))
    assert raised.value.code is Code.OFFSET_OUT_OF_RANGE


def test_low_watermark_is_the_lowest_log_start_of_live_followers() -> None:
    world = LeaderWithFollowers()
    world.fetch(2, 5)
    world.leader.follower(2).start_offset = 3
    assert world.leader.low_watermark == -1, "broker 3 has not fetched yet"
    del world.live[3]
    assert world.leader.low_watermark == 3
