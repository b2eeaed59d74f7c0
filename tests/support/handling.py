"""Drives a handler's coroutine without a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ottla.protocol.steps import Pause, Step, Steps

T = TypeVar("T")


class Handling(Generic[T]):
    """Runs a handler's coroutine until it ends or awaits an event, and continues it after the event. ``then`` gets the result."""

    def __init__(self, steps: Steps[T], then: Callable[[T], None] | None = None) -> None:
        self._steps = steps
        self._then = then
        self.results: list[T] = []
        """Empty until the coroutine has returned, then its result."""
        self._go_on()

    def _go_on(self) -> None:
        while True:
            try:
                step: Step = self._steps.send(None)
            except StopIteration as ended:
                self.results.append(ended.value)
                if self._then is not None:
                    self._then(ended.value)
                return
            if isinstance(step, Pause):
                step.then(self._go_on)
                return
            if step is not None:
                step()

    def cancel(self) -> None:
        self._steps.close()


def handled(steps: Steps[Any]) -> Any:
    """Return the result of a coroutine that ends without waiting for other work."""
    (result,) = Handling(steps).results
    return result


def as_handler(handle: Callable[..., Any]) -> Callable[..., Steps[Any]]:
    """Return an API's handler that calls a function, which returns the response or, for a parked request, an awaitable."""

    async def handler(ports: Any, request: Any, context: Any) -> Any:
        response = handle(ports, request, context)
        return await response if isinstance(response, Awaitable) else response

    return handler
