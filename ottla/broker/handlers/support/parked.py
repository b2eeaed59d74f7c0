"""A parked fetch, which waits for data, for room in the response budget, or for its timeout (Kafka's DelayedOperation)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, Protocol, TypeVar

from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.env import Timer, Timers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.pending_response import Later
from ottla.broker.loop.stepping import Stepping
from ottla.protocol.steps import Steps, run_first_step

MAX_WAIT_MS = 0x7FFFFFFF

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
Waiter = Callable[[], None]


class Ports(Protocol):
    @property
    def timers(self) -> Timers: ...

    @property
    def stepping(self) -> Stepping: ...

    @property
    def response_budget(self) -> ResponseBudget: ...

    @property
    def lifecycle(self) -> Lifecycle: ...


class Fetching(Protocol[A_co]):
    """The fetch that is parked: reads data and builds the response."""

    def listen(self, waiter: Waiter) -> None:
        """Call ``waiter`` once, soon after data was appended, even if several appends follow."""
        ...

    def ignore(self, waiter: Waiter) -> None:
        """Undo `listen`."""
        ...

    def may_have_enough(self) -> bool:
        """Whether another read may return enough data for a response."""
        ...

    def read(self, *, is_last: bool) -> Steps[A_co | None]:
        """The response, or None if the fetch must keep waiting. With ``is_last``, after the timeout, always a response."""
        ...

    def refused(self) -> A_co:
        """The response after an unexpected exception in `read`."""
        ...

    def abandoned(self) -> None:
        """Release all data of the fetch after its client has disconnected."""
        ...


class ParkedFetch(Generic[A]):
    """Reads again whenever there may be enough data. A read that takes only one step runs at once.

    The fetch listens before each read, so that data which arrives between the steps of a read is noticed.
    """

    def __init__(self, ports: Ports, fetching: Fetching[A]) -> None:
        self._ports = ports
        self._fetching = fetching
        self._later: Later | None = None
        self._timer: Timer | None = None
        self._is_reading = False
        self._is_woken = False

    def listen(self) -> None:
        """Begin to listen before the first read of a fetch that may wait. `park` or `stop` must follow."""
        self._fetching.listen(self._woken)

    def park(self, wait_ms: int, *, is_large: bool) -> Later:
        self._later = later = Later(on_abandoned=self._abandoned)
        later.is_large = is_large
        self._timer = self._ports.timers.call_later(min(wait_ms, MAX_WAIT_MS), self._timed_out)
        self._fetching.listen(self._woken)
        if self._is_woken:
            self._ports.timers.call_soon(self._woken)
        return later

    @property
    def is_waiting(self) -> bool:
        """Whether a client waits for the response."""
        return self._later is not None and not self._later.is_done

    def wake(self) -> None:
        """Read again soon, because there is already more data."""
        self._ports.timers.call_soon(self._woken)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fetching.ignore(self._woken)
        self._ports.response_budget.forget(self._woken)
        self._ports.response_budget.forget(self._timed_out)

    def _abandoned(self) -> None:
        self.stop()
        self._fetching.abandoned()

    def _woken(self) -> None:
        if self._later is None or self._is_reading:
            self._is_woken = True
        elif not self._later.is_done and not self._must_wait(self._woken):
            self._fetching.listen(self._woken)
            if self._fetching.may_have_enough():
                self._work(is_last=False)

    def _timed_out(self) -> None:
        self._timer = None
        if self.is_waiting and not self._is_reading and not self._must_wait(self._timed_out):
            self._work(is_last=True)

    def _must_wait(self, go_on: Callable[[], None]) -> bool:
        """Whether the budget has no room for a response. If so, ``go_on`` is called as soon as there is room."""
        if self._ports.response_budget.is_used_up:
            self._ports.response_budget.wait(go_on)
            return True
        return False

    def _work(self, *, is_last: bool) -> None:
        """Read outside of dispatch. An unexpected exception must be answered here, or the client would wait forever."""
        self._is_reading, self._is_woken = True, False
        try:
            answer = run_first_step(self._fetching.read(is_last=is_last))
            if isinstance(answer, Generator):
                self._ports.stepping.run(answer, self._worked, self._failed)
            else:
                self._worked(answer)
        except Exception as error:
            self._failed(error)

    def _worked(self, answer: A | None) -> None:
        self._is_reading = False
        if not self.is_waiting:
            return
        if answer is not None:
            self._finish(answer)
        elif self._timer is None:
            # The timeout has passed during the read.
            self._timed_out()
        elif self._is_woken:
            self.wake()

    def _failed(self, error: Exception) -> None:
        self._is_reading = False
        self._ports.lifecycle.bug("parked_fetch_failed", of=type(self._fetching).__name__)
        self._finish(self._fetching.refused())

    def _finish(self, answer: A) -> None:
        self.stop()
        if self._later is not None:
            self._later.resolve(answer)
