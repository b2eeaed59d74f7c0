"""The environment (`Env`) of a simulated broker: simulated time, seeded random numbers, and no sockets."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable

from ottla.broker.loop.timed_calls import TimedCall
from ottla.simulation.network import Network, SimulatedListening
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Promise
from ottla.storage.filesystem import Filesystem

START_MS = 1_700_000_000_000
OPEN_FILE_LIMIT = 1 << 20
FREE_PORT = 9092
"""Port of a listener that is configured with port 0."""


class SimulatedEnv:
    """Implements `broker.loop.env.Env` in simulated time. ``wall_jump_ms`` is how far a test has set the wall clock forward."""

    def __init__(self, fs: Filesystem, rng: random.Random, now_ms: int) -> None:
        self.fs = fs
        self.scheduler = Scheduler(now_ms)
        self.network = Network()
        self.wall_jump_ms = 0
        self._rng = rng

    def now_ms(self) -> int:
        return self.scheduler.now_ms + self.wall_jump_ms

    def monotonic_ms(self) -> float:
        return float(self.scheduler.now_ms)

    def steady_ms(self) -> int:
        return self.scheduler.now_ms

    def random_uuid(self) -> bytes:
        return self._rng.randbytes(16)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimedCall:
        return self.scheduler.call_later(delay_ms, callback)

    def call_by_clock(self, delay_ms: float, callback: Callable[[], None]) -> TimedCall:
        return self.call_later(delay_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.scheduler.call_soon(callback)

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        try:
            work()
        except Exception as error:
            failure: BaseException | None = error
        else:
            failure = None
        self.call_soon(lambda: done(failure))

    def finish_aside(self) -> None:
        """Do nothing, because `run_aside` has executed its work at once, without a thread."""

    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> SimulatedListening:
        return self.network.listen(host, port or FREE_PORT, factory)

    def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        tls: ssl.SSLContext | None = None,
    ) -> TimedCall:
        assert tls is None, "a simulated network has no TLS"
        attempt = TimedCall(lambda: self.network.connect(host, port, factory, failed, self.call_soon))
        self.call_soon(attempt.make)
        return attempt

    def waiter(self) -> Promise:
        return Promise()

    def host_name(self) -> str:
        return "simulated"

    def open_file_limit(self) -> int:
        return OPEN_FILE_LIMIT

    def settle(self) -> None:
        """Run all calls that are due now, and the calls that they add."""
        self.scheduler.settle()

    def advance(self, by_ms: float) -> None:
        """Let this much simulated time pass. Timers fire in order."""
        self.scheduler.advance(by_ms, self.settle)
