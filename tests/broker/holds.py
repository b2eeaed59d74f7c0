"""A simulated broker that measures how long each request blocks the event loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ottla.broker.network.connection import Connection
from ottla.broker.network.dispatch import Secured
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import SimulatedEnv
from ottla.storage.filesystem import Filesystem
from tests.support.counting import Limit, Meter, check

T = TypeVar("T")

LOOP_HELD = Limit(lines=45_000, ms=20)
"""Longest time that a request of any size may block the event loop."""


class _Aside:
    """Marks work that runs in a thread, so that `MeasuredEnv.settle` does not measure it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work

    def __call__(self) -> None:
        self.work()


class MeasuredEnv(SimulatedEnv):
    """A simulated environment that measures callbacks on the event loop, but not work in threads."""

    def __init__(self, meter: Meter, fs: Filesystem, rng: random.Random, now_ms: int) -> None:
        super().__init__(fs, rng, now_ms)
        self._meter = meter

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        # Run the work after the current callback, as a thread would, so that its time is not measured.
        self.scheduler.soon.append(_Aside(lambda: super(MeasuredEnv, self).run_aside(work, done)))

    def settle(self) -> None:
        while self.scheduler.soon:
            callback = self.scheduler.soon.popleft()
            if isinstance(callback, _Aside):
                callback()
            else:
                self._meter.run(callback)


class MeasuredBroker(SimulatedBroker):
    """A simulated broker whose ``meter`` measures each callback on the event loop and each arrival of bytes on a connection."""

    def __init__(self, meter: Meter, settings: dict[str, str] | None = None) -> None:
        self.meter = meter
        self.env_type = partial(MeasuredEnv, meter)  # type: ignore[assignment]
        super().__init__(settings)

    def connection(self, secured: Secured | None = None) -> Connection:
        connection = super().connection(secured)
        received = connection.buffer_updated
        connection.buffer_updated = lambda nbytes: self.meter.run(lambda: received(nbytes))  # type: ignore[method-assign]
        return connection

    def measure(self, work: Callable[[], T], limit: Limit = LOOP_HELD, what: str = "the request") -> T:
        """Run ``work`` and return its result. Raises AssertionError if the event loop was blocked longer than the limit."""
        self.meter.longest = 0.0
        result = work()
        check(self.meter, limit, what)
        return result
