"""A fetch that waits: for more to read, for room among the answers of all, or until its time is up (DelayedOperation of Kafka)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, Protocol, TypeVar

import structlog

from ottla.broker.budgets import ResponseBudget
from ottla.broker.env import Timer, Timers
from ottla.broker.later import Later
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.stepping import Stepping
from ottla.storage.steps import Steps, begun

MAX_WAIT_MS = 0x7FFFFFFF

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
Waiter = Callable[[], None]

log = structlog.get_logger("fetch")


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
    """What is read and answered."""

    def listen(self, waiter: Waiter) -> None:
        """Have ``waiter`` called soon after there may be more to read; once, and also where it was told several times."""
        ...

    def ignore(self, waiter: Waiter) -> None:
        """Take that back."""
        ...

    def may_have_enough(self) -> bool:
        """Whether reading again may be worth it."""
        ...

    def read(self, *, is_last: bool) -> Steps[A_co | None]:
        """The answer; None where it is not to go out yet, which it is in any case when the time is up."""
        ...

    def refused(self) -> A_co:
        """The answer where reading has met a bug."""
        ...

    def abandoned(self) -> None:
        """The client is gone: nothing is to be held any longer."""
        ...


class ParkedFetch(Generic[A]):
    """Reads again whenever there may be enough, at once where that is one step of work.

    It listens before each reading, so that nothing is missed that comes while the reading takes its steps.
    """

    def __init__(self, ports: Ports, fetching: Fetching[A]) -> None:
        self._ports = ports
        self._fetching = fetching
        self._later: Later | None = None
        self._timer: Timer | None = None
        self._is_reading = False
        self._is_woken = False

    def listen(self) -> None:
        """From before the first reading on, of a fetch that may wait after it: `park` or `stop` follows."""
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
        """Whether there is somebody to answer."""
        return self._later is not None and not self._later.is_done

    def wake(self) -> None:
        """There is more to read already."""
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
        """Whether there is no room for an answer now; then ``go_on`` is called when there is."""
        if self._ports.response_budget.is_used_up:
            self._ports.response_budget.wait(go_on)
            return True
        return False

    def _work(self, *, is_last: bool) -> None:
        """Go on outside of dispatch. A bug must be answered here too, or the connection would wait for ever."""
        self._is_reading, self._is_woken = True, False
        try:
            answer = begun(self._fetching.read(is_last=is_last))
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
            # Its time was up while it was read.
            self._timed_out()
        elif self._is_woken:
            self.wake()

    def _failed(self, error: Exception) -> None:
        self._is_reading = False
        log.exception("parked_fetch_failed", of=type(self._fetching).__name__)
        self._ports.lifecycle.unexpected_errors += 1
        self._finish(self._fetching.refused())

    def _finish(self, answer: A) -> None:
        self.stop()
        if self._later is not None:
            self._later.resolve(answer)
