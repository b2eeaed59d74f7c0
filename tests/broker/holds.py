"""How long requests hold the event loop: a simulated broker whose every stretch on the loop is timed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from ottla.broker.network.connection import Connection
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import SimulatedEnv
from ottla.storage.filesystem import Filesystem
from tests.measuring import Limit

LOOP_HELD_S = Limit(0.020)
"""No request of any size may hold the loop for longer."""


class TimedEnv(SimulatedEnv):
    """Times what runs on the loop, in the thread's own processor time; what runs beside the loop does not count."""

    def __init__(self, fs: Filesystem, rng: random.Random, now_ms: int) -> None:
        super().__init__(fs, rng, now_ms)
        self.longest_s = 0.0

    def timed(self, work: Callable[[], None]) -> None:
        began = time.thread_time()
        work()
        self.longest_s = max(self.longest_s, time.thread_time() - began)

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        # Later, between two stretches of the loop, as in a thread.
        self.scheduler.soon.append(lambda: super(TimedEnv, self).run_aside(work, done))
        self._aside = self.scheduler.soon[-1]

    def settle(self) -> None:
        while self.scheduler.soon:
            callback = self.scheduler.soon.popleft()
            if callback is getattr(self, "_aside", None):
                callback()
            else:
                self.timed(callback)


class TimedBroker(SimulatedBroker):
    """`longest_s` is the longest stretch so far, in s."""

    env_type = TimedEnv

    @property
    def longest_s(self) -> float:
        assert isinstance(self.env, TimedEnv)
        return self.env.longest_s

    def forget(self) -> None:
        assert isinstance(self.env, TimedEnv)
        self.env.longest_s = 0.0


def time_receiving(monkeypatch: object) -> None:
    """Count what a connection does when bytes arrive as a stretch of the loop, too."""
    received = Connection.buffer_updated

    def timed(self: Connection, nbytes: int) -> None:
        env = self._ports.clock
        if isinstance(env, TimedEnv):
            env.timed(lambda: received(self, nbytes))
        else:
            received(self, nbytes)

    monkeypatch.setattr(Connection, "buffer_updated", timed)  # type: ignore[attr-defined]
