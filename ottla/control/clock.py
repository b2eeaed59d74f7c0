"""A clock that advances only on command. With it a test can let transactions, sessions and records expire.

Waits for a client or for the disk still use the machine's clock (`broker.loop.env.Timers`): a consumer's long poll ends, and a
refused marker is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ottla.broker.loop.timed_calls import TimedCall, TimedCalls

STEPS_PER_ADVANCE = 500
"""Maximum number of steps in one move of the clock. If a timer repeats within a step, only its last repetition is called."""
MAX_ADVANCE_MS = 10 * 365 * 86_400_000
SETTLE_POLL_S = 0.0005
SETTLE_POLLS = 20_000
"""Maximum number of polls, after each step, for the end of the work that it started. They take about ten seconds."""


class ManualClock:
    """A `broker.loop.env.TimeSource`. The clock starts at ``now_ms``, in ms since 1970, by default the machine's time."""

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
        """Move the clock by ``by_ms``, and call the timers that become due in the order of their times. Timers with the same time
        are called in the order in which they were set.

        After each step the clock waits until ``is_busy`` returns False, so that the consequences of one timeout are complete when
        the next one is due. Raises ValueError for a time below 0 or above `MAX_ADVANCE_MS`.
        """
        if not 0 <= by_ms <= MAX_ADVANCE_MS:
            raise ValueError(f"the clock cannot be advanced by {by_ms} ms; give 0 to {MAX_ADVANCE_MS} ms")
        end_ms, step_ms = self._now_ms + by_ms, max(1, by_ms // STEPS_PER_ADVANCE)
        while (due_ms := self._calls.next_ms) is not None and due_ms <= end_ms:
            # Each step jumps to its end at once: while the clock moves by a day, a timer that repeats every 50 ms is not called a
            # million times.
            self._now_ms = min(end_ms, max(int(due_ms), self._now_ms + step_ms))
            self._call_due()
            await _wait_while(is_busy)
        self._now_ms = end_ms
        await _wait_while(is_busy)

    def _call_due(self) -> None:
        """Call the timers that are due now. A timer that such a call sets waits for the next step, because two timers that set each
        other would otherwise never end."""
        due = []
        while (at_ms := self._calls.next_ms) is not None and at_ms <= self._now_ms:
            due.append(self._calls.take())
        for call in due:
            call.make()


async def _wait_while(is_busy: Callable[[], bool]) -> None:
    """Wait until no work is pending, or until `SETTLE_POLLS` is reached. A request that waits for its client ends by itself."""
    await asyncio.sleep(0)
    for _ in range(SETTLE_POLLS):
        if not is_busy():
            break
        await asyncio.sleep(SETTLE_POLL_S)
