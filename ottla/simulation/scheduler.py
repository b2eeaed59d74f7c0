"""Simulated time: what is to be called, and when. Time stands still until it is moved."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable


class ScheduledCall:
    """What is to be called once, as long as it is not cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Scheduler:
    """A clock in ms, and the calls that wait for it. Calls of one moment come in the order in which they were asked for."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._order = itertools.count()
        self._timers: list[tuple[float, int, ScheduledCall]] = []
        self.soon: deque[Callable[[], None]] = deque()
        """What is to be called soon, in order. A test may take the calls out and make them itself."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ScheduledCall:
        call = ScheduledCall(callback)
        heapq.heappush(self._timers, (self.now_ms + delay_ms, next(self._order), call))
        return call

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
        while self._timers and self._timers[0][0] <= end_ms:
            at_ms, _, call = heapq.heappop(self._timers)
            self.now_ms = max(self.now_ms, int(at_ms))
            if call.callback is not None:
                call.callback()
            settle()
        self.now_ms = int(end_ms)
