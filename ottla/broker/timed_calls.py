"""Calls that wait for their times, where time is moved by hand: of a manual clock, and of the simulation."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator


class TimedCall:
    """What is called once, as long as it is not cancelled."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    @property
    def is_cancelled(self) -> bool:
        """Or made already."""
        return self._callback is None

    def cancel(self) -> None:
        self._callback = None

    def make(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class TimedCalls:
    """In the order of their times, in ms, and of the asking where these are the same."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._heap: list[tuple[float, int, TimedCall]] = []

    def add(self, at_ms: float, callback: Callable[[], None]) -> TimedCall:
        call = TimedCall(callback)
        heapq.heappush(self._heap, (at_ms, next(self._order), call))
        return call

    def __iter__(self) -> Iterator[tuple[float, TimedCall]]:
        """Those that are still to be made, with their times, in no order."""
        return ((at_ms, call) for at_ms, _, call in self._heap if not call.is_cancelled)

    @property
    def next_ms(self) -> float | None:
        """When the first one is due that is not cancelled."""
        while self._heap and self._heap[0][2].is_cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self) -> TimedCall:
        """The first one. Raises IndexError where there is none."""
        return heapq.heappop(self._heap)[2]
