"""Tests of processor time, on machines that others share.

A neighbour on the same core makes everything take twice as long for seconds. So a measurement that is over its limit is made
again, a while later, on a fresh set-up; code that is too slow is too slow each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ottla.storage.steps import Steps

measured = pytest.mark.flaky(reruns=3, reruns_delay=2, only_rerun=["AssertionError"])


def best(measure: Callable[[int], float], attempts: int, limit_s: float) -> float:
    """The least of a few measurements; the first one that is below the limit is the last, for the others could only be better."""
    least_s = float("inf")
    for attempt in range(attempts):
        least_s = min(least_s, measure(attempt))
        if least_s < limit_s:
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
