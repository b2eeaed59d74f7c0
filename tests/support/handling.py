"""Drives a handler's coroutine without a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ottla.protocol.steps import Pause, Step, Steps

T = TypeVar("T")


class Handling(Generic[T]):
    """A coroutine that runs without pauses for other work, up to its end or until it waits. It continues when the wait ends.
    ``then`` gets the result.
    """

    def __init__(self, steps: Steps[T], then: Callable[[T], None] | None = None) -> None:
        self._steps = steps
        self._then = then
        self.results: list[T] = []
        """The result, once the coroutine has returned."""
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
    """Return a handler of an API from a function that returns the response, or an awaitable for a request that waits."""

    async def handler(ports: Any, request: Any, context: Any) -> Any:
        response = handle(ports, request, context)
        return await response if isinstance(response, Awaitable) else response

    return handler
