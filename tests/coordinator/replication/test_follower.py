"""Decisions of a follower after a fetch response from its leader."""

from __future__ import annotations

import pytest

from ottla.coordinator.replication.follower import (
    NEXT_STATES,
    Action,
    Append,
    AskOffsets,
    FetchedPartition,
    FetchState,
    FollowerLog,
    Following,
    IllegalFollowerTransition,
    StartAt,
    Stop,
    Truncate,
    Wait,
    taken_over,
    truncation_offset,
)
from ottla.coordinator.replication.leader import EpochEnd
from ottla.protocol.errors import Code

LOG = FollowerLog(start_offset=5, end_offset=100, high_watermark=40)


def following(state: FetchState = FetchState.FETCHING) -> Following:
    return Following(leader_id=1, leader_epoch=7, state=state)


def test_follower_appends_fetched_records_with_the_leaders_offsets() -> None:
    one = following()
    action = one.fetched(FetchedPartition(records=b"x", high_watermark=90, start_offset=6), LOG, None)
    assert action == Append(records=b"x", high_watermark=90, start_offset=6)
    assert one.state is FetchState.FETCHING


@pytest.mark.parametrize(
    ("high_watermark", "start_offset", "expected"),
    [
        (90, 6, (90, 6)),
        (130, 6, (100, 6)),
        (30, 6, (40, 6)),
        (90, 2, (90, 5)),
        (-1, -1, (40, 5)),
    ],
)
def test_leaders_high_watermark_and_log_start_are_limited_to_the_followers_log(
    high_watermark: int, start_offset: int, expected: tuple[int, int]
) -> None:
    """A follower's high watermark never decreases or exceeds its log end, and its log start never exceeds the high watermark."""
    assert taken_over(Append(records=b"", high_watermark=high_watermark, start_offset=start_offset), LOG) == expected


@pytest.mark.parametrize(
    ("diverging", "own_end", "offset"),
    [
        (EpochEnd(3, 70), EpochEnd(3, 90), 70),
        (EpochEnd(3, 95), EpochEnd(3, 90), 90),
        (EpochEnd(3, 70), EpochEnd(2, 60), 60),
        (EpochEnd(3, 50), EpochEnd(2, 60), 60),
        (EpochEnd(3, 170), EpochEnd(3, 190), 100),
        (EpochEnd(3, 70), None, 70),
        (EpochEnd(3, 170), EpochEnd(-1, -1), 100),
        (EpochEnd(-1, -1), EpochEnd(3, 90), 40),
    ],
)
def test_diverging_epoch_determines_the_truncation_offset_of_a_follower(
    diverging: EpochEnd, own_end: EpochEnd | None, offset: int
) -> None:
    """KIP-279: if the follower lacks the diverging epoch, it truncates to the end of its previous epoch and fetches again."""
    assert truncation_offset(diverging, own_end, LOG) == offset
    assert following().fetched(FetchedPartition(diverging=diverging), LOG, own_end) == Truncate(offset)


@pytest.mark.parametrize(
    ("leader", "action"),
    [((0, 80), Truncate(80)), ((120, 150), StartAt(120)), ((0, 100), Truncate(100)), ((50, 150), Truncate(100))],
)
def test_offset_out_of_range_makes_the_follower_truncate_or_restart(leader: tuple[int, int], action: Action) -> None:
    one = following()
    assert one.fetched(FetchedPartition(code=Code.OFFSET_OUT_OF_RANGE), LOG, None) == AskOffsets()
    assert one.state is FetchState.OUT_OF_RANGE
    assert one.offsets(*leader, LOG) == action
    assert one.state is FetchState.FETCHING


@pytest.mark.parametrize(
    ("code", "action", "state"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, Wait(), FetchState.DELAYED),
        (Code.UNKNOWN_LEADER_EPOCH, Wait(), FetchState.DELAYED),
        (Code.CORRUPT_MESSAGE, Wait(), FetchState.DELAYED),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Wait(), FetchState.DELAYED),
        (Code.FENCED_LEADER_EPOCH, Stop(Code.FENCED_LEADER_EPOCH), FetchState.FAILED),
        (Code.KAFKA_STORAGE_ERROR, Wait(), FetchState.DELAYED),
    ],
)
def test_error_of_a_follower_fetch_delays_or_stops_its_fetching(code: Code, action: Action, state: FetchState) -> None:
    one = following()
    assert one.fetched(FetchedPartition(code=code), LOG, None) == action
    assert one.state is state
    if state is FetchState.DELAYED:
        one.go_on()
        assert one.state is FetchState.FETCHING


def test_follower_uses_only_the_response_to_its_last_fetch() -> None:
    one = following()
    first = one.ask()
    assert one.is_awaited(first)
    second = one.ask()
    assert (one.is_awaited(first), one.is_awaited(second)) == (False, True)
    one.failed(Code.CORRUPT_MESSAGE)
    assert not one.is_awaited(second)
    with pytest.raises(AssertionError):
        one.ask()


def test_follower_fails_when_its_log_fails() -> None:
    one = following()
    assert one.own_log_failed() == Stop(Code.KAFKA_STORAGE_ERROR)
    assert one.state is FetchState.FAILED


def test_follower_fails_on_records_that_do_not_continue_its_log() -> None:
    one = following()
    assert one.cannot_go_on() == Stop(Code.UNKNOWN_SERVER_ERROR)
    assert one.state is FetchState.FAILED


@pytest.mark.parametrize("state", FetchState)
def test_illegal_fetch_state_transitions_of_a_follower_raise(state: FetchState) -> None:
    moves = {
        FetchState.FETCHING: lambda one: one.go_on(),
        FetchState.FAILED: lambda one: one.cannot_go_on(),
        FetchState.DELAYED: lambda one: one.failed(Code.CORRUPT_MESSAGE),
    }
    for target, move in moves.items():
        one = following(state)
        if target in NEXT_STATES[state]:
            move(one)
            assert one.state is target
        else:
            with pytest.raises(IllegalFollowerTransition):
                move(one)
    if state is not FetchState.FETCHING:
        with pytest.raises(AssertionError):
            following(state).fetched(FetchedPartition(), LOG, None)
    if state is not FetchState.OUT_OF_RANGE:
        with pytest.raises(AssertionError):
            following(state).offsets(0, 1, LOG)
