"""Long work as coroutines that a driver runs step by step, with other work in between.

Such a coroutine awaits only `next_turn`, `in_thread`, a `Pause`, and other coroutines of this kind. The driver is
`broker.loop.stepping.Stepping`, or `run` in a process without other work. No task of asyncio is involved, so a coroutine that never
waits takes as long as a few function calls.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Generic, TypeAlias, TypeVar, cast

T = TypeVar("T")
V = TypeVar("V")


class Pause(Generic[V]):
    """A wait that lasts until other work calls `end`. Awaiting the pause returns the value given to `end`.

    Only one coroutine may await a pause. The coroutine continues in a later iteration of the event loop; with ``is_parked`` it
    continues within the call of `end`, so `end` must not be called in the middle of a state change. A request that awaits a pause
    with ``is_parked`` no longer needs its bytes, and its connection handles further requests. When the client disconnects, the
    coroutine is cancelled, unless the pause has ``outlives_client``: then a request that has not taken effect yet still takes
    effect.
    """

    __slots__ = ("_is_over", "_then", "_value", "is_parked", "outlives_client")

    def __init__(self, *, is_parked: bool = False, outlives_client: bool = False) -> None:
        self.is_parked = is_parked
        self.outlives_client = outlives_client
        self._is_over = False
        self._then: Callable[[], None] | None = None
        self._value: V | None = None

    @property
    def is_over(self) -> bool:
        return self._is_over

    def then(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when the pause ends, or at once if it has already ended."""
        if self._is_over:
            go_on()
        else:
            self._then = go_on

    def end(self, value: V | None = None) -> None:
        """End the pause. Only the first call counts."""
        if self._is_over:
            return
        then, self._is_over, self._value, self._then = self._then, True, value, None
        if then is not None:
            then()

    def __await__(self) -> Generator[Pause[V], None, V]:
        if not self._is_over:
            yield self
        return self._value  # type: ignore[return-value]


Step: TypeAlias = Callable[[], None] | Pause[object] | None
"""The value that a coroutine yields to its driver: None to let other work run, a blocking function, or a `Pause`."""

Steps: TypeAlias = Coroutine[Step, None, T]


@types.coroutine
def next_turn() -> Generator[None, None, None]:
    """Let other work run before the coroutine goes on."""
    yield None


@types.coroutine
def in_thread(blocking: Callable[[], None]) -> Generator[Callable[[], None], None, None]:
    """Run a blocking function in a worker thread. The function must not access state of the event loop. Raises the function's
    exceptions."""
    yield blocking


WORK_A_STEP = 1_000
"""Work of one step in units that take about two microseconds each."""


class Pace:
    """Counts work, and determines when a step is over.

    With ``double_first`` the first step is twice as long, so that short work needs no second step.
    """

    __slots__ = ("_done",)

    def __init__(self, *, double_first: bool = False) -> None:
        self._done = -WORK_A_STEP if double_first else 0

    def spend(self, work: int) -> bool:
        """Count ``work`` units; returns whether the step is over, so that the caller awaits `next_turn`."""
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
            step = steps.send(None) if failure is None else steps.throw(failure)
        except StopIteration as ended:
            return cast(T, ended.value)
        assert not isinstance(step, Pause), "no other work could end the pause"
        failure = None
        if step is not None:
            try:
                step()
            except Exception as error:
                failure = error
