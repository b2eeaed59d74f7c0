"""Long work in steps, so that whoever runs it can let others in between two of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar, cast

T = TypeVar("T")

Step = Callable[[], None] | None
"""``None``: others may go first. A callable blocks and shares no state: run it aside, then go on; its error is raised in here."""

Steps = Generator[Step, None, T]

WORK_A_STEP = 1_000
"""Units of about two microseconds each."""


class Pace:
    """Counts work, and says when a step is over. ``begun``: the first step is as long as two, so that little needs no second."""

    __slots__ = ("_done",)

    def __init__(self, *, begun: bool = False) -> None:
        self._done = -WORK_A_STEP if begun else 0

    def is_over(self, work: int) -> bool:
        self._done += work
        if self._done < WORK_A_STEP:
            return False
        self._done = 0
        return True


def run(steps: Steps[T]) -> T:
    """All steps at once, for a process that has nothing else to do."""
    while True:
        try:
            aside = next(steps)
        except StopIteration as ended:
            return cast(T, ended.value)
        if aside is not None:
            aside()


def begun(steps: Steps[T]) -> T | Steps[T]:
    """The result of work that ends before its first step does; the rest of its steps where there are more."""
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
