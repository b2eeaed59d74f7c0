"""Timers on a clock that is moved by hand: the manual clock of tests, and the clock of the simulation."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator


class TimedCall:
    """A callback that is called once unless it is cancelled."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    @property
    def is_cancelled(self) -> bool:
        """Whether the callback was cancelled or already called."""
        return self._callback is None

    def cancel(self) -> None:
        self._callback = None

    def make(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class TimedCalls:
    """Callbacks ordered by their times in ms; callbacks with the same time are in the order in which they were added."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._heap: list[tuple[float, int, TimedCall]] = []

    def add(self, at_ms: float, callback: Callable[[], None]) -> TimedCall:
        call = TimedCall(callback)
        heapq.heappush(self._heap, (at_ms, next(self._order), call))
        return call

    def __iter__(self) -> Iterator[tuple[float, TimedCall]]:
        """The pending calls with their times, in no particular order."""
        return ((at_ms, call) for at_ms, _, call in self._heap if not call.is_cancelled)

    @property
    def next_ms(self) -> float | None:
        """The time in ms of the first call that is not cancelled; None without such a call."""
        while self._heap and self._heap[0][2].is_cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self) -> TimedCall:
        """Remove and return the first call. Raises IndexError if there is none."""
        return heapq.heappop(self._heap)[2]
