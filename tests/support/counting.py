"""Measures for how long a call blocks the event loop.

The measure is the number of lines of Python that the call executes. It does not depend on the load of the machine, so it can decide
whether a change is accepted. The tests use requests of a twentieth of the maximum size, and a twentieth of the usual work per step
(`ottla.protocol.steps`). They reveal an array that is not processed in steps as clearly as the largest request would.

Lines do not measure work inside C functions: decompression, checksums, copies, regular expressions. For such functions, ``make
nightly`` runs the same tests with the largest requests, and measures processor time.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol, TypeVar

from ottla.protocol import steps

T = TypeVar("T")

SCALE = 20
"""Factor by which requests and steps are smaller than usual in tests that count the lines of Python they execute."""
IMPORT = sys.modules["_frozen_importlib"]._find_and_load.__code__
"""Code object of the function that imports a module for the first time in a process. Its lines are not counted."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How long the event loop may be blocked: executed lines, or ms of processor time on a machine of ordinary speed."""

    lines: int
    ms: float

    def with_lines(self, lines: int) -> Limit:
        """Return the same limit with another number of lines."""
        return Limit(lines, self.ms)


class Meter(Protocol):
    """Measures work on the event loop.

    ``longest`` is the number of lines or ms of the longest call of `run` since the meter was created, or since a test set it to 0.
    """

    longest: float
    attempts: int
    """Number of times that a test measures the same work. The best result counts."""

    def size(self, largest: int) -> int:
        """Return how many elements a test's request gets, if the maximum is ``largest``."""
        ...

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work``, measure it, and return its result."""
        ...

    def exceeds(self, limit: Limit) -> str:
        """Return the lines or ms of the longest call as text if they exceed the limit, else an empty string."""
        ...


class LineMeter:
    """Counts executed lines of Python, without those that run during an import."""

    attempts = 1

    def __init__(self) -> None:
        self.longest = 0.0
        self._lines = 0
        self._imports = 0

    def size(self, largest: int) -> int:
        return -(-largest // SCALE)

    def run(self, work: Callable[[], T]) -> T:
        before, self._lines = sys.gettrace(), 0
        collects = gc.isenabled()
        # Without garbage collection the number of executed lines is the same in each run: Hypothesis registers a callback that
        # each collection would call.
        gc.disable()
        sys.settrace(self._called)
        try:
            return work()
        finally:
            sys.settrace(before)
            if collects:
                gc.enable()
            self.longest = max(self.longest, self._lines)

    def exceeds(self, limit: Limit) -> str:
        return f"{self.longest:.0f} lines, {limit.lines} are allowed" if self.longest > limit.lines else ""

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is IMPORT:
            self._imports += 1
            return self._imported
        if self._imports:
            return None
        self._lines += 1
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._lines += 1
        return self._line

    def _imported(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "return":
            self._imports -= 1
        return self._imported


class TimeMeter:
    """Measures the thread's processor time in ms.

    Processor time of other processes does not count, but load on the machine still slows this thread down.
    """

    attempts = 3

    def __init__(self) -> None:
        self.longest = 0.0

    def size(self, largest: int) -> int:
        return largest

    def run(self, work: Callable[[], T]) -> T:
        began_s = time.thread_time()
        try:
            return work()
        finally:
            self.longest = max(self.longest, (time.thread_time() - began_s) * 1_000)

    def exceeds(self, limit: Limit) -> str:
        allowed_ms = limit.ms if self.longest <= limit.ms else limit.ms * slowness()
        return f"{self.longest:.1f} ms, {allowed_ms:.1f} are allowed" if self.longest > allowed_ms else ""


USUAL_S = 0.004
"""Seconds of processor time that `slowness` measures on a machine of ordinary speed."""
MAX_SLOWNESS = 3.0


def slowness() -> float:
    """Return how many times slower than an ordinary machine this machine now is, from 1 to `MAX_SLOWNESS`."""

    def fixed_work_s() -> float:
        began_s, total = time.thread_time(), 0
        for number in range(60_000):
            total += number * number
        return time.thread_time() - began_s

    return min(MAX_SLOWNESS, max(1.0, min(fixed_work_s() for _ in range(5)) / USUAL_S))


def check(meter: Meter, limit: Limit, what: str = "the work") -> None:
    """Raise AssertionError if the longest call exceeds the limit."""
    exceeded = meter.exceeds(limit)
    assert not exceeded, f"{what} held the event loop for {exceeded}"


def check_best(meter: Meter, limit: Limit, attempt: Callable[[int], object]) -> None:
    """Call ``attempt``, up to ``meter.attempts`` times, with its number, until a call stays within the limit.

    Raises AssertionError if every attempt exceeds the limit.
    """
    for number in range(meter.attempts):
        meter.longest = 0.0
        attempt(number)
        if not meter.exceeds(limit):
            return
    check(meter, limit)


def run_steps(meter: Meter, work: steps.Steps[T]) -> tuple[T, int]:
    """Run all steps of ``work``, and measure each.

    Returns the result, and the number of blocking calls that a step left to another thread. These calls are not
    measured, as they do not block the event loop.
    """
    aside = 0
    result: list[T] = []

    def step() -> steps.Step:
        try:
            return work.send(None)
        except StopIteration as ended:
            result.append(ended.value)
            return None

    while True:
        blocking = meter.run(step)
        if result:
            return result[0], aside
        if callable(blocking):
            aside += 1
            blocking()
