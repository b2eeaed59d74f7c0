"""Tests of processor time, on machines that others share.

A neighbour on the same core makes everything take twice as long for seconds. So a measurement that is over its limit is made
again, a while later, on a fresh set-up; code that is too slow is too slow each time. A machine may also be slow altogether:
a limit is that of a usual machine, and it grows with the time that a fixed piece of work takes here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ottla.storage.steps import Steps

measured = pytest.mark.flaky(reruns=3, reruns_delay=2, only_rerun=["AssertionError"])


USUAL_S = 0.004
"""What `_work` takes on a machine that is as fast as the limits of tests assume."""
MAX_SLOWNESS = 3.0
"""Beyond that nothing can be said."""


def _work() -> float:
    began, total = time.thread_time(), 0
    for number in range(60_000):
        total += number * number
    return time.thread_time() - began


def slowness() -> float:
    """How many times longer than on a usual machine work takes at this moment; 1 where it is faster."""
    return min(MAX_SLOWNESS, max(1.0, min(_work() for _ in range(5)) / USUAL_S))


class Limit:
    """Of processor time in seconds; what was just measured and is above it is set against the machine's pace at this moment."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"{self.seconds * 1_000:.0f} ms on a usual machine"

    def __gt__(self, measured_s: float) -> bool:
        return measured_s < self.seconds or measured_s < self.seconds * slowness()

    def __lt__(self, measured_s: float) -> bool:
        return not self > measured_s

    def __rmul__(self, times: float) -> Limit:
        return Limit(times * self.seconds)


def best(measure: Callable[[int], float], attempts: int, limit_s: Limit) -> float:
    """The least of a few measurements, as a usual machine would have it; the first one below the limit is the last."""
    least_s = float("inf")
    for attempt in range(attempts):
        measured_s = measure(attempt)
        if measured_s >= limit_s.seconds:
            measured_s /= slowness()
        least_s = min(least_s, measured_s)
        if least_s < limit_s.seconds:
            break
    return least_s


def slowest_step(steps: Steps[object]) -> float:
    """Seconds that the longest step needed; what runs aside does not count, nor what other processes take meanwhile."""
    slowest = 0.0
    while True:
        began = time.thread_time()
        aside = next(steps, "end")
        slowest = max(slowest, time.thread_time() - began)
        if aside == "end":
            return slowest
        if callable(aside):
            aside()
