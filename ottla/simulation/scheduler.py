"""Simulated time: pending calls and when they are due. Time only passes when it is advanced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.broker.loop.timed_calls import TimedCall, TimedCalls


class Scheduler:
    """A clock in ms, and the calls that wait for it. Calls with the same time are made in the order in which they were added."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.timers = TimedCalls()
        self.soon: deque[Callable[[], None]] = deque()
        """Calls that are due now, in order. `World.run_until` makes them one by one."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimedCall:
        return self.timers.add(self.now_ms + delay_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        """Make the calls that are due now, like one turn of an event loop, but not the calls that they add."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def settle(self) -> None:
        """Make all calls that are due now, and the calls that they add."""
        while self.soon:
            self.soon.popleft()()

    def advance(self, by_ms: float, settle: Callable[[], None] | None = None) -> None:
        """Let this much simulated time pass. Timers fire in order, and ``settle`` is called after each timer."""
        settle = self.settle if settle is None else settle
        end_ms = self.now_ms + by_ms
        while (at_ms := self.timers.next_ms) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, int(at_ms))
            self.timers.take().make()
            settle()
        self.now_ms = int(end_ms)
