"""Long work as a generator of steps, so that its caller can run other work between two steps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar, cast

T = TypeVar("T")


class Pause:
    """A step that lasts until another piece of work calls `end`."""

    __slots__ = ("_is_over", "_then")

    def __init__(self) -> None:
        self._is_over = False
        self._then: Callable[[], None] | None = None

    def then(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when the pause ends, or at once if it has already ended."""
        if self._is_over:
            go_on()
        else:
            self._then = go_on

    def end(self) -> None:
        then, self._is_over, self._then = self._then, True, None
        if then is not None:
            then()


Step = Callable[[], None] | Pause | None
"""The values that a generator of steps yields: None to let other work run, a function that blocks, or a `Pause` to wait for.

The scheduler runs a blocking function in a worker thread, so the function must not access state of the event loop. An exception
that the function raises is raised again at the ``yield``.
"""

Steps = Generator[Step, None, T]

WORK_A_STEP = 1_000
"""Work of one step, in units of about two microseconds."""


class Pace:
    """Counts work, and determines when a step is over.

    With ``double_first`` the first step is twice as long, so that short work needs no second step.
    """

    __slots__ = ("_done",)

    def __init__(self, *, double_first: bool = False) -> None:
        self._done = -WORK_A_STEP if double_first else 0

    def spend(self, work: int) -> bool:
        """Count ``work`` units; returns whether the step is over, so that the caller yields and the next step begins."""
        self._done += work
        if self._done < WORK_A_STEP:
            return False
        self._done = 0
        return True


def run(steps: Steps[T]) -> T:
    """Run all steps at once and return the result, for a process without other work to do between the steps."""
    failure: Exception | None = None
    while True:
        try:
            aside = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as ended:
            return cast(T, ended.value)
        assert not isinstance(aside, Pause), "there is nobody else who could end it"
        failure = None
        if aside is not None:
            try:
                aside()
            except Exception as error:
                failure = error


def run_first_step(steps: Steps[T]) -> T | Steps[T]:
    """Start the work. Returns the result if the work ends within its first step, else the remaining steps."""
    try:
        first = next(steps)
    except StopIteration as ended:
        return cast(T, ended.value)
    return _resumed(first, steps)


def _resumed(step: Step, steps: Steps[T]) -> Steps[T]:
    failure: Exception | None = None
    while True:
        try:
            yield step
        except Exception as error:
            failure = error
        try:
            step = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as ended:
            return cast(T, ended.value)
        failure = None
