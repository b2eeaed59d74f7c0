"""A clock that stands still until somebody moves it: transactions, sessions and records grow old when a test says so.

What waits for a client or for the disk goes by the machine's time all the same (`broker.env.Timers`): a consumer's long poll ends,
and a refused marker is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ottla.broker.timed_calls import TimedCall, TimedCalls

STEPS_PER_ADVANCE = 500
"""In how many steps the clock is moved at most: of what repeats within a step only the last repetition is carried out."""
MAX_ADVANCE_MS = 10 * 365 * 86_400_000
SETTLE_POLL_S = 0.0005
SETTLE_POLLS = 20_000
"""How long a step waits for what it has set going, before the next one: ten seconds."""


class ManualClock:
    """A `broker.env.TimeSource`. It begins at ``now_ms``, in ms since 1970, or else at the machine's time."""

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
        """Move the clock, and call what is due on the way in the order of the times, and of the asking where these are the same.

        After each step all that it has set going is carried to its end, until which ``is_busy``: what comes of one time-out is
        there when the next one comes. Raises ValueError for a way that is too long, or that leads back.
        """
        if not 0 <= by_ms <= MAX_ADVANCE_MS:
            raise ValueError(f"the clock is moved by 0 to {MAX_ADVANCE_MS} ms, not by {by_ms}")
        end_ms, step_ms = self._now_ms + by_ms, max(1, by_ms // STEPS_PER_ADVANCE)
        while (due_ms := self._calls.next_ms) is not None and due_ms <= end_ms:
            # To the end of a step at once: what repeats every 50 ms is not called a million times on the way through a day.
            self._now_ms = min(end_ms, max(int(due_ms), self._now_ms + step_ms))
            self._call_due()
            await _wait_while(is_busy)
        self._now_ms = end_ms
        await _wait_while(is_busy)

    def _call_due(self) -> None:
        """Each that is due now: one that a call asks for waits for the next step, or two of them would go on for ever."""
        due = []
        while (at_ms := self._calls.next_ms) is not None and at_ms <= self._now_ms:
            due.append(self._calls.take())
        for call in due:
            call.make()


async def _wait_while(is_busy: Callable[[], bool]) -> None:
    """Until nothing is under way any more, or for as long as it may take: a request that waits for its client ends by itself."""
    await asyncio.sleep(0)
    for _ in range(SETTLE_POLLS):
        if not is_busy():
            break
        await asyncio.sleep(SETTLE_POLL_S)
