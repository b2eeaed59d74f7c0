"""Simulated clients (actors) as generators. An actor yields ms to sleep, or a `Promise` to await; the scheduler resumes it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from ottla.simulation.scheduler import Scheduler

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""The generator of an actor, or a part of it that ``yield from`` runs, with a result of type ``T``."""


class Promise:
    """A future value or error."""

    __slots__ = ("_error", "_is_settled", "_then", "_value")

    def __init__(self) -> None:
        self._is_settled = False
        self._value: Any = None
        self._error: Exception | None = None
        self._then: Callable[[Any, Exception | None], None] | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)

    def release(self) -> None:
        """Resume the coroutine that awaits this promise (`broker.loop.env.Waiter`)."""
        self.resolve(None)

    def resolve(self, value: Any) -> None:
        self._settle(value, None)

    def fail(self, error: Exception) -> None:
        self._settle(None, error)

    def _settle(self, value: Any, error: Exception | None) -> None:
        if not self._is_settled:
            self._is_settled, self._value, self._error = True, value, error
            if self._then is not None:
                self._then(value, error)

    def then(self, call: Callable[[Any, Exception | None], None]) -> None:
        if self._is_settled:
            call(self._value, self._error)
        else:
            self._then = call


class Task:
    """A running actor. While it is paused its code does not run; the result that it awaits is kept."""

    def __init__(self, scheduler: Scheduler, steps: Steps[None]) -> None:
        self._scheduler = scheduler
        self._steps = steps
        self._is_paused = False
        self._missed: tuple[Any, Exception | None] | None = None
        self.is_done = False
        scheduler.call_soon(lambda: self._resume(None, None))

    def pause(self) -> None:
        self._is_paused = True

    def wake(self) -> None:
        self._is_paused = False
        if self._missed is not None:
            value, error = self._missed
            self._missed = None
            self._scheduler.call_soon(lambda: self._resume(value, error))

    def kill(self) -> None:
        if not self.is_done:
            self.is_done = True
            self._steps.close()

    def _resume(self, value: Any, error: Exception | None) -> None:
        if self.is_done:
            return
        if self._is_paused:
            self._missed = (value, error)
            return
        try:
            wanted = self._steps.send(value) if error is None else self._steps.throw(error)
        except StopIteration:
            self.is_done = True
            return
        if isinstance(wanted, Promise):
            wanted.then(lambda v, e: self._scheduler.call_soon(lambda: self._resume(v, e)))
        else:
            self._scheduler.call_later(wanted, lambda: self._resume(None, None))
