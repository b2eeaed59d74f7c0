"""Measures how long one piece of work holds the event loop.

The measure is the number of lines of Python that the work runs: it is the same on a busy machine, so it can decide over a change.
A request of a twentieth of the largest size, in steps of a twentieth of the usual length (`ottla.protocol.steps`), shows an array
that is not worked off in steps as clearly as the largest request does, and takes a twentieth of the time.

Lines say nothing about the work of one C function: inflating, checksums, copies, patterns. So the same tests run under
``make nightly`` with the largest requests and processor time as the measure.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol, TypeVar

from ottla.protocol import steps

T = TypeVar("T")

SCALE = 20
"""Factor by which requests and steps are smaller when lines are counted."""
IMPORT = sys.modules["_frozen_importlib"]._find_and_load.__code__
"""The code of a module's first import, which happens once in the life of a process."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Longest time the event loop may be held, by each measure; ``ms`` is for an ordinary machine."""

    lines: int
    ms: float

    def with_lines(self, lines: int) -> Limit:
        """The same limit for a request that needs more, or fewer, lines than others."""
        return Limit(lines, self.ms)


class Meter(Protocol):
    """Measures work on the event loop. ``longest`` is the longest stretch since the start, or since `forget`."""

    longest: float
    attempts: int
    """Number of times a test measures the same work; the best result counts."""

    def size(self, largest: int) -> int:
        """The number of elements of a request that has ``largest`` of them where it is as large as possible."""
        ...

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` and measure it as one stretch."""
        ...

    def exceeds(self, limit: Limit) -> str:
        """Return the cost of the longest stretch if it exceeds the limit, else an empty text."""
        ...


class LineMeter:
    """Counts lines of Python. The lines of imports do not count."""

    attempts = 1

    def __init__(self) -> None:
        self.longest = 0.0
        self._lines = 0
        self._imports = 0

    def size(self, largest: int) -> int:
        return -(-largest // SCALE)

    def run(self, work: Callable[[], T]) -> T:
        before, self._lines = sys.gettrace(), 0
        sys.settrace(self._called)
        try:
            return work()
        finally:
            sys.settrace(before)
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
    """Measures the thread's processor time in ms. What other processes take meanwhile does not count, but they slow this one."""

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
"""The time that `slowness` measures on a machine of the speed that the limits assume."""
MAX_SLOWNESS = 3.0


def slowness() -> float:
    """Return the current slowness factor against an ordinary machine: at least 1 and at most `MAX_SLOWNESS`."""

    def fixed_work_s() -> float:
        began_s, total = time.thread_time(), 0
        for number in range(60_000):
            total += number * number
        return time.thread_time() - began_s

    return min(MAX_SLOWNESS, max(1.0, min(fixed_work_s() for _ in range(5)) / USUAL_S))


def check(meter: Meter, limit: Limit, what: str = "the work") -> None:
    """Raises AssertionError where the longest stretch is above the limit."""
    exceeded = meter.exceeds(limit)
    assert not exceeded, f"{what} held the loop for {exceeded}"


def check_best(meter: Meter, limit: Limit, attempt: Callable[[int], object]) -> None:
    """Make a few attempts, each with its number, until one is below the limit. Raises AssertionError where none is."""
    for number in range(meter.attempts):
        meter.longest = 0.0
        attempt(number)
        if not meter.exceeds(limit):
            return
    check(meter, limit)


def run_steps(meter: Meter, work: steps.Steps[T]) -> tuple[T, int]:
    """The result of all steps, and how many of them ran beside the loop: those are not measured, as they do not hold it."""
    aside = 0
    result: list[T] = []

    def step() -> steps.Step:
        try:
            return next(work)
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
