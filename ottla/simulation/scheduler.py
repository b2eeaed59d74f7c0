"""Simulated time: what is to be called, and when. Time stands still until it is moved."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.broker.timed_calls import TimedCall, TimedCalls


class Scheduler:
    """A clock in ms, and the calls that wait for it. Calls of one moment come in the order in which they were asked for."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.timers = TimedCalls()
        self.soon: deque[Callable[[], None]] = deque()
        """What is to be called soon, in order. A test may take the calls out and make them itself."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimedCall:
        return self.timers.add(self.now_ms + delay_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        """Run what was to be called soon, as one turn of an event loop does: not what that brings about."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def settle(self) -> None:
        """Run what was to be called soon, and all that it brings about."""
        while self.soon:
            self.soon.popleft()()

    def advance(self, by_ms: float, settle: Callable[[], None] | None = None) -> None:
        """Let time pass, timers fire in order. After each ``settle`` is called, which a test may have its own of."""
        settle = self.settle if settle is None else settle
        end_ms = self.now_ms + by_ms
        while (at_ms := self.timers.next_ms) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, int(at_ms))
            self.timers.take().make()
            settle()
        self.now_ms = int(end_ms)
