"""A clock that advances only on command, so that a test can let transactions, sessions and records expire.

Waits for a client or for the disk use the machine's clock (`broker.loop.env.Timers`). Long polls therefore return, and refused
markers are sent again, while this clock does not advance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ottla.broker.loop.timed_calls import TimedCall, TimedCalls

STEPS_PER_ADVANCE = 500
"""Maximum number of steps of an advance, approximately. A timer that repeats more often is called once per step."""
MAX_ADVANCE_MS = 10 * 365 * 86_400_000
SETTLE_POLL_S = 0.0005
SETTLE_POLLS = 20_000
"""Maximum number of checks, after each step, whether the work that the step started has ended: about ten seconds in total."""


class ManualClock:
    """A `broker.loop.env.TimeSource` that advances on command. It starts at ``now_ms``, in ms since 1970, by default the machine's
    time."""

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self._calls = TimedCalls()

    def now_ms(self) -> int:
        return self._now_ms

    def steady_ms(self) -> int:
        return self._now_ms

    def call_by_clock(self, delay_ms: float, callback: Callable[[], None]) -> TimedCall:
        return self._calls.add(self._now_ms + delay_ms, callback)

    async def advance(self, by_ms: int, is_busy: Callable[[], bool]) -> None:
        """Advance the clock by ``by_ms`` in steps, and call due timers in the order of their times, then of their creation.

        After each step the clock waits until ``is_busy`` returns False, so that the work of one timeout is complete before the next
        timeout. Raises ValueError for a time below 0 or above `MAX_ADVANCE_MS`.
        """
        if not 0 <= by_ms <= MAX_ADVANCE_MS:
            raise ValueError(f"the clock cannot be advanced by {by_ms} ms; give 0 to {MAX_ADVANCE_MS} ms")
        end_ms, step_ms = self._now_ms + by_ms, max(1, by_ms // STEPS_PER_ADVANCE)
        while (due_ms := self._calls.next_ms) is not None and due_ms <= end_ms:
            # The clock jumps to the end of the step: otherwise a timer that repeats every 50 ms would be called a million times
            # while the clock advances by a day.
            self._now_ms = min(end_ms, max(int(due_ms), self._now_ms + step_ms))
            self._call_due()
            await _wait_while(is_busy)
        self._now_ms = end_ms
        await _wait_while(is_busy)

    def _call_due(self) -> None:
        """Call the due timers. Timers that these calls create wait for the next step: otherwise two timers that create each other
        would be called for ever."""
        due = []
        while (at_ms := self._calls.next_ms) is not None and at_ms <= self._now_ms:
            due.append(self._calls.take())
        for call in due:
            call.make()


async def _wait_while(is_busy: Callable[[], bool]) -> None:
    """Wait until ``is_busy`` returns False, for at most `SETTLE_POLLS` checks."""
    await asyncio.sleep(0)
    for _ in range(SETTLE_POLLS):
        if not is_busy():
            break
        await asyncio.sleep(SETTLE_POLL_S)
