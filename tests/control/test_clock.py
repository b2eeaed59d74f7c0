"""The manual clock runs calls in order of their time, and only when it is advanced."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ottla.control.clock import MAX_ADVANCE_MS, STEPS_PER_ADVANCE, ManualClock
from ottla.control.durations import duration_ms

START_MS = 1_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


def idle() -> bool:
    return False


async def test_manual_clock_runs_scheduled_calls_in_time_order(clock: ManualClock) -> None:
    called: list[tuple[str, int]] = []

    def note(name: str) -> None:
        called.append((name, clock.now_ms() - START_MS))

    clock.call_by_clock(20, lambda: note("second"))
    clock.call_by_clock(10, lambda: note("first"))
    clock.call_by_clock(20, lambda: note("third"))
    clock.call_by_clock(30, lambda: note("later"))
    await clock.advance(25, idle)
    assert called == [("first", 10), ("second", 20), ("third", 20)]
    assert clock.now_ms() == clock.steady_ms() == START_MS + 25
    await clock.advance(5, idle)
    assert called[3:] == [("later", 30)]


async def test_manual_clock_does_not_run_a_cancelled_call(clock: ManualClock) -> None:
    called: list[str] = []
    late = clock.call_by_clock(2, lambda: called.append("late"))
    clock.call_by_clock(1, late.cancel)
    clock.call_by_clock(1, lambda: called.append("kept"))
    await clock.advance(10, idle)
    assert called == ["kept"]


async def test_call_scheduled_during_a_manual_clock_advance_runs_in_it(clock: ManualClock) -> None:
    called: list[int] = []

    def again() -> None:
        called.append(clock.now_ms() - START_MS)
        clock.call_by_clock(10, again)

    clock.call_by_clock(10, again)
    await clock.advance(35, idle)
    assert called == [10, 20, 30]


async def test_long_manual_clock_advance_has_a_bounded_number_of_steps(clock: ManualClock) -> None:
    calls = 0

    def again() -> None:
        nonlocal calls
        calls += 1
        clock.call_by_clock(50, again)

    clock.call_by_clock(50, again)
    await clock.advance(7 * 86_400_000, idle)
    assert STEPS_PER_ADVANCE // 2 < calls <= STEPS_PER_ADVANCE + 1
    assert clock.now_ms() == START_MS + 7 * 86_400_000


async def test_manual_clock_advance_waits_until_the_broker_is_idle_between_steps(clock: ManualClock) -> None:
    asked = 0

    def busy() -> bool:
        nonlocal asked
        asked += 1
        return asked < 3

    seen: list[int] = []
    clock.call_by_clock(1, lambda: seen.append(asked))
    clock.call_by_clock(2, lambda: seen.append(asked))
    await clock.advance(2, busy)
    assert seen == [0, 3]


@pytest.mark.parametrize("by_ms", [-1, MAX_ADVANCE_MS + 1])
async def test_manual_clock_advance_refuses_negative_and_too_large_values(clock: ManualClock, by_ms: int) -> None:
    with pytest.raises(ValueError, match="the clock cannot be advanced by"):
        await clock.advance(by_ms, idle)
    assert clock.now_ms() == START_MS


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("61s", 61_000),
        ("500ms", 500),
        ("1h30m", 5_400_000),
        ("1 h 30 m", 5_400_000),
        ("1.5s", 1_500),
        ("7d", 604_800_000),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_manual_clock_durations_are_parsed(text: str | timedelta, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "61", "s", "-1s", "1s2", "one second", "1e9s", "9" * 60 + "s"])
def test_invalid_manual_clock_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; give one such as 61s, 500ms, 1h30m or 7d"):
        duration_ms(text)
