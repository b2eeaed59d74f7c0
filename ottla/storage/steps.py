"""Long work in steps, so that whoever runs it can let others in between two of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar, cast

T = TypeVar("T")


class Pause:
    """A step that lasts until somebody ends it, for work that waits for other work."""

    __slots__ = ("_is_over", "_then")

    def __init__(self) -> None:
        self._is_over = False
        self._then: Callable[[], None] | None = None

    def then(self, go_on: Callable[[], None]) -> None:
        """Have ``go_on`` called when it is over, at once where it is already."""
        if self._is_over:
            go_on()
        else:
            self._then = go_on

    def end(self) -> None:
        then, self._is_over, self._then = self._then, True, None
        if then is not None:
            then()


Step = Callable[[], None] | Pause | None
"""What a generator of steps yields: None to let other work run, a function that blocks, or a `Pause` to go on when it is over.

Whoever carries out the steps runs such a function beside the event loop, so it must touch no state of the loop. An exception
that it raises is raised again at the ``yield``.
"""

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
