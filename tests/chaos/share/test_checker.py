"""The checker of share group histories finds planted violations."""

from __future__ import annotations

import pytest

from tests.chaos.share.checker import check
from tests.chaos.share.history import ShareHistory, StartOffsets

LIMIT, LOCK_S = 5, 30.0


def history_of(*lines: str, produced: int = 1) -> ShareHistory:
    """Return the history of a single member from its output lines, with times in seconds. All records are in partition 0."""
    history = ShareHistory(LIMIT, LOCK_S)
    history.produced = {(0, offset): f"v{offset}" for offset in range(produced)}
    history.sent = set(history.produced.values())
    history.lags = {0: 0}
    history.take("m", [_in_nanoseconds(line) for line in lines])
    return history


def _in_nanoseconds(line: str) -> str:
    word, *parts = line.split(" ")
    times = 2 if word == "got" else 1
    return " ".join([word, *(str(int(float(part) * 1e9)) for part in parts[:times]), *parts[times:]])


ACCEPTED = ("got 1 2 0 0 1 v0", "want 3 0 0 1 ACCEPT", "done 4 0 0 1 ACCEPT")


def test_share_group_checker_reports_nothing_for_an_accepted_record() -> None:
    assert check(history_of(*ACCEPTED)) == []


@pytest.mark.parametrize("kind", ["ACCEPT", "REJECT"])
def test_share_group_checker_reports_a_delivery_after_the_acknowledgement(kind: str) -> None:
    lines = check(history_of("got 1 2 0 0 1 v0", f"want 3 0 0 1 {kind}", f"done 4 0 0 1 {kind}", "got 5 6 0 0 2 v0"))
    assert len(lines) == 1 and lines[0].startswith("delivered after its acknowledgement: (0, 0)")


def test_share_group_checker_permits_a_delivery_that_began_before_the_acknowledgement() -> None:
    assert check(history_of(*ACCEPTED, "got 3.5 6 0 0 2 v0")) == []


@pytest.mark.parametrize("answer", [(), ("refused 4 0 0 1 ACCEPT InvalidRecordStateException",)])
def test_share_group_checker_permits_redelivery_without_a_successful_acknowledgement(answer: tuple[str, ...]) -> None:
    assert check(history_of("got 1 2 0 0 1 v0", "want 3 0 0 1 ACCEPT", *answer, "got 5 6 0 0 2 v0")) == []


def test_share_group_checker_reports_a_record_that_was_never_delivered() -> None:
    assert check(history_of(*ACCEPTED, produced=2)) == [
        "lost: v1 at (0, 1) was delivered 0 times, and neither accepted nor rejected"
    ]


def test_share_group_checker_reports_an_undelivered_record_with_an_unknown_offset() -> None:
    history = history_of(*ACCEPTED, "got 1 2 0 7 1 v7", "want 3 0 7 1 ACCEPT", "got 1 2 0 8 1 v8")
    history.unplaced = {"v7", "v8", "v9"}
    history.sent |= history.unplaced
    assert check(history) == [
        "lost: v9, which was never delivered",
        "lost: v8 at (0, 8) was delivered 1 times, and neither accepted nor rejected",
    ]


def test_share_group_checker_reports_a_released_record_without_redelivery() -> None:
    lines = check(history_of("got 1 2 0 0 1 v0", "want 3 0 0 1 RELEASE", "done 4 0 0 1 RELEASE"))
    assert lines == ["lost: v0 at (0, 0) was delivered 1 times, and neither accepted nor rejected"]


def test_share_group_checker_permits_a_record_that_reached_the_delivery_limit() -> None:
    assert check(history_of(*(f"got {2 * n + 1} {2 * n + 2} 0 0 {n} v0" for n in range(1, LIMIT + 1)))) == []


def test_share_group_checker_reports_a_remaining_lag() -> None:
    history = history_of(*ACCEPTED)
    history.lags = {0: 3}
    assert check(history) == ["not finished: 3 records of partition 0"]


@pytest.mark.parametrize("later", [1, 2])
def test_share_group_checker_reports_a_delivery_count_that_does_not_increase(later: int) -> None:
    (line,) = check(history_of("got 1 2 0 0 2 v0", f"got 5 6 0 0 {later} v0", "want 7 0 0 2 ACCEPT"))
    assert line == f"delivery count decreased: (0, 0) has {later} after 2, without a failure between"


def test_share_group_checker_permits_a_decreased_delivery_count_after_a_failure() -> None:
    history = history_of("got 1 2 0 0 2 v0", "got 5 6 0 0 1 v0", "want 7 0 0 1 ACCEPT")
    history.disruptions = [(3, 4)]
    assert check(history) == []


def test_share_group_checker_reports_a_released_delivery_count_that_a_failure_lost() -> None:
    released = ("got 1 2 0 0 2 v0", "want 2 0 0 2 RELEASE", "done 2.5 0 0 2 RELEASE")
    history = history_of(*released, "got 5 6 0 0 1 v0", "want 7 0 0 1 ACCEPT")
    history.disruptions = [(3, 4)]
    assert check(history) == ["delivery count decreased: (0, 0) has delivery 1 after delivery 2 was released"]


@pytest.mark.parametrize("kind", ["ACCEPT", "RELEASE"])
@pytest.mark.parametrize(
    ("count", "answered_s", "is_disrupted", "found"),
    [(LIMIT, 33, True, False), (LIMIT, 29, True, True), (LIMIT, 33, False, True), (LIMIT - 1, 33, True, True)],
)
def test_share_group_checker_ignores_an_acknowledgement_after_the_record_was_archived(
    kind: str, count: int, answered_s: int, is_disrupted: bool, found: bool
) -> None:
    lines = [f"got 1 2 0 0 {count} v0", f"want 28 0 0 {count} {kind}", f"done {answered_s} 0 0 {count} {kind}"]
    history = history_of(*lines, f"got 40 41 0 0 {count} v0", f"want 42 0 0 {count} ACCEPT")
    history.disruptions = [(30, 45)] if is_disrupted else []
    planted = "delivered after its acknowledgement" if kind == "ACCEPT" else "after delivery"
    assert any(planted in line for line in check(history)) is found


def test_share_group_checker_reports_a_delivery_beyond_the_delivery_limit() -> None:
    (line,) = check(history_of(f"got 1 2 0 0 {LIMIT + 1} v0", "want 3 0 0 6 ACCEPT"))
    assert line == "delivery 6 of (0, 0), and the limit is 5"


def test_share_group_checker_reports_a_decreasing_start_offset() -> None:
    history = history_of(*ACCEPTED)
    history.start_offsets = [StartOffsets(5, 6, {0: 7}), StartOffsets(6.5, 7, {0: 6})]
    assert check(history) == ["start offset decreased: partition 0 has 6 after 7"]


def test_share_group_checker_permits_responses_to_concurrent_requests_in_any_order() -> None:
    history = history_of(*ACCEPTED)
    history.start_offsets = [StartOffsets(5, 7, {0: 6}), StartOffsets(5.5, 6, {0: 7})]
    assert check(history) == []


def test_share_group_checker_reports_a_delivery_below_the_start_offset() -> None:
    history = history_of("got 5 6 0 0 1 v0", "want 7 0 0 1 ACCEPT")
    history.start_offsets = [StartOffsets(1, 2, {0: 1})]
    assert check(history) == ["delivered below the start offset: (0, 0) to m, and the partition starts at 1"]


def test_share_group_checker_reports_a_record_that_was_never_produced() -> None:
    history = history_of("got 1 2 0 0 1 other", "want 3 0 0 1 ACCEPT")
    assert check(history) == ["unknown record: 'other' at (0, 0)"]


def test_share_group_checker_reports_a_record_at_another_offset() -> None:
    history = history_of("got 1 2 0 0 1 v1", "want 3 0 0 1 ACCEPT", "want 3 0 1 1 ACCEPT", produced=2)
    assert check(history) == ["other record: v1 at (0, 0), where v0 was written"]
