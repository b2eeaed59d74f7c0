"""One simulated machine: its disk, and the successive processes of its server with their environments."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar, cast

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import Env
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.timed_calls import TimedCall
from ottla.simulation.coroutines import Work, drive
from ottla.simulation.disk import Disk
from ottla.simulation.faulty_filesystem import PowerCut
from ottla.simulation.links import Links
from ottla.simulation.network import SimulatedListening
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Promise

DATA_DIR = "/data"
PORT = 9092
OPEN_FILE_LIMIT = 1 << 20


class Server(Protocol):
    """A broker or controller that runs on a `Node`."""

    lifecycle: Lifecycle

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


S = TypeVar("S", bound=Server)
MakeServer = Callable[[Env, BrokerConfig, Mapping[str, int]], S]

ASIDE_MS = 2.0
"""Maximum delay, in ms, before a simulated thread begins its work, and before its result arrives. A slow disk multiplies both."""


class NodeEnv:
    """Implements `broker.loop.env.Env` for one process of a server. After the process has ended, its pending calls do nothing.
    Calls that are due while the process is paused are made in order when it resumes.
    """

    def __init__(self, node: Node[Any]) -> None:
        self._node = node
        self._scheduler = node.scheduler
        self._rng = node.rng
        self.fs = node.disk.fs
        self._skew_ms = node.skew_ms
        self._aside: list[Callable[[], None]] = []
        self._under_way = 0
        self._missed: list[Callable[[], None]] = []
        self.is_over = False

    def now_ms(self) -> int:
        return self._scheduler.now_ms + self._node.skew_ms

    def monotonic_ms(self) -> float:
        return float(self._scheduler.now_ms)

    def steady_ms(self) -> int:
        # The wall clock at the process's start plus the elapsed time: later clock jumps have no effect.
        return self._scheduler.now_ms + self._skew_ms

    def random_uuid(self) -> bytes:
        return self._rng.randbytes(16)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimedCall:
        return self._scheduler.call_later(delay_ms, lambda: self._call(callback))

    call_by_clock = call_later

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._scheduler.call_soon(lambda: self._call(callback))

    def _call(self, callback: Callable[[], None]) -> None:
        if self._node.is_paused:
            self._missed.append(callback)
        elif not self.is_over:
            with self._node.at_work():
                callback()

    def wake(self) -> None:
        missed, self._missed = self._missed, []
        for callback in missed:
            self.call_soon(callback)

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Simulate a thread: run ``work`` after a random delay, and call ``done`` after another delay."""
        failure: BaseException | None = None

        def run() -> None:
            nonlocal failure
            if run in self._aside:
                self._aside.remove(run)
                try:
                    work()
                except Exception as error:
                    failure = error

        def report_done() -> None:
            self._under_way -= 1
            done(failure)

        slowness = self._node.aside_slowness
        begins_ms = self._rng.random() * ASIDE_MS * slowness
        self._aside.append(run)
        self._under_way += 1
        self.call_later(begins_ms, run)
        self.call_later(begins_ms + self._rng.random() * ASIDE_MS * slowness, report_done)

    @property
    def is_aside(self) -> bool:
        return self._under_way > 0

    def finish_aside(self) -> None:
        for run in list(self._aside):
            run()

    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> SimulatedListening:
        port = port or PORT
        return SimulatedListening(
            port, self._node.links.listen(self._node.host, port, lambda: _Guarded(self._node, self, factory()))
        )

    def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        tls: ssl.SSLContext | None = None,
    ) -> NodeAttempt:
        assert tls is None, "a simulated network has no TLS"
        attempt = NodeAttempt()

        def refused() -> None:
            if not attempt.is_over and not self.is_over:
                attempt.is_over = True
                self._call(lambda: failed(ConnectionRefusedError(f"no listener at {host}:{port}")))

        def made() -> asyncio.BaseProtocol:
            if attempt.is_over or self.is_over:
                return Unwanted()
            attempt.is_over = True
            return _Guarded(self._node, self, factory())

        self._node.links.dial(self._node.host, host, port, made, refused)
        return attempt

    def waiter(self) -> Promise:
        return Promise()

    def host_name(self) -> str:
        return self._node.host

    def open_file_limit(self) -> int:
        return OPEN_FILE_LIMIT


class NodeAttempt:
    """An attempt to connect, which is over when it was cancelled or completed."""

    def __init__(self) -> None:
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class Unwanted(asyncio.Protocol):
    """Closes a connection that opens after its attempt was cancelled."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).close()


class _Guarded(asyncio.BufferedProtocol):
    """A connection of one process of a server. Data that arrives after the process has ended is dropped."""

    def __init__(self, node: Node[Any], env: NodeEnv, protocol: asyncio.BufferedProtocol) -> None:
        self._node = node
        self._env = env
        self._protocol = protocol
        self.get_buffer = protocol.get_buffer  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._guarded(lambda: self._protocol.connection_made(transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self._guarded(lambda: self._protocol.connection_lost(exc))

    def buffer_updated(self, nbytes: int) -> None:
        self._guarded(lambda: self._protocol.buffer_updated(nbytes))

    def _guarded(self, call: Callable[[], None]) -> None:
        if not self._env.is_over:
            with self._node.at_work():
                call()


class _AtWork:
    """Context manager for each call into the server's code: a `PowerCut` that a disk operation raises ends the process."""

    __slots__ = ("_node",)

    def __init__(self, node: Node[Any]) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._node.has_worked = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, PowerCut):
            return False
        self._node.cut_by_disk()
        return True


class Node(Generic[S]):
    """A machine whose server may be killed, lose power, be paused, stopped and started again."""

    def __init__(
        self,
        *,
        node_id: int,
        host: str,
        scheduler: Scheduler,
        links: Links,
        rng: random.Random,
        settings: dict[str, str],
        features: dict[str, int],
        on_crash: Callable[[Node[S]], None],
        make_server: MakeServer[S],
        on_served: Callable[[Node[S]], None] = lambda node: None,
    ) -> None:
        """``make_server`` creates the server of each process. ``on_served`` is called when a server has started."""
        self.node_id = node_id
        self.host = host
        self.scheduler = scheduler
        self.links = links
        self.rng = rng
        self.disk = Disk(rng)
        self.skew_ms = 0
        self.aside_slowness = 1.0
        self._settings = {"log.dirs": DATA_DIR, "node.id": str(node_id), **settings}
        self._config = BrokerConfig(self._settings)
        self._features = features
        self._on_crash = on_crash
        self._on_served = on_served
        self._make_server = make_server
        self._guard = _AtWork(self)
        self.server: S | None = None
        """The server of the current process, also while it starts or stops."""
        self.env: NodeEnv | None = None
        self.is_starting = False
        self.is_stopping = False
        self.is_paused = False
        self._work: Work | None = None
        self.loses_power = False
        """Whether crashes are power cuts, which lose unsynced data, instead of kills."""
        self.has_worked = False
        """Whether the server has executed code since its state was last checked (`Watch`, `ReplicaChecker`)."""
        self.bugs = 0
        self.lives = 0
        self.reached: Counter[str] = Counter()

    def at_work(self) -> _AtWork:
        return self._guard

    @property
    def is_up(self) -> bool:
        return self.server is not None and not self.is_starting and not self.is_stopping

    def start(self) -> None:
        """Start the server. During the start the server may crash in a disk operation, or a write may fail."""
        assert self.env is None
        self.links.is_down.discard(self.host)
        self.lives += 1
        self.env = env = NodeEnv(self)
        self.is_starting = True
        with self._guard:
            server = self._make_server(cast(Any, env), self._config, self._features)
            self._work = server.start()

            def started(error: Exception | None) -> None:
                self._work = None
                self._started(server, error)

            drive(self._work, env.call_soon, started)
            if self.env is env:
                self.server = server

    def _started(self, server: S, error: Exception | None) -> None:
        if isinstance(error, OSError | ConfigError):
            # The disk is full, or the controller rejected the broker. Simulate an operator, who restarts the server later.
            is_disk = isinstance(error, OSError)
            self.reached["a start that a full disk refused" if is_disk else "a start that waits in vain for its controller"] += 1
            self.crash(power_cut=False)
        elif error is not None:
            raise error
        else:
            self.server = server
            self.is_starting = False
            self.links.release()
            self._on_served(self)

    def cut_by_disk(self) -> None:
        self.crash(power_cut=self.loses_power, within=self.disk.cut_operation)

    def crash(self, *, power_cut: bool, within: str = "") -> None:
        """End the process by SIGKILL or a power cut. ``within`` is the interrupted disk operation, if any."""
        env = self.env
        if env is None:
            return
        if within:
            self.reached["a crash inside a write" if within.startswith("append") else "a crash inside another operation"] += 1
        if self.is_starting:
            self.reached["a crash during the start"] += 1
        if self.is_stopping:
            self.reached["a crash during the stop"] += 1
        if self.is_paused:
            self.reached["a crash of a paused process"] += 1
        if env.is_aside:
            self.reached["a crash during a sync"] += 1
        self._on_crash(self)
        left = self.disk.crash(power_cut=power_cut)
        self.reached[f"a power cut: {left}" if power_cut else "a kill"] += 1
        self._end_life()
        self.links.close_host(self.host, without_a_word=power_cut)
        if power_cut:
            self.links.is_down.add(self.host)

    def stop(self) -> None:
        """Stop the server, as by SIGTERM. A broker with a separate controller runs until the controller allows the shutdown."""
        env = self.env
        if self.server is None or env is None or not self.is_up:
            return
        self.is_stopping = True
        with self._guard:
            self._work = self.server.stop()
            drive(self._work, env.call_soon, self._stopped)

    def _stopped(self, error: Exception | None) -> None:
        self._work = None
        if error is not None:
            raise error
        self.reached["a clean stop"] += 1
        self._on_crash(self)
        # Without a power cut the disk keeps all written data.
        self.disk.crash(power_cut=False)
        self._end_life()
        self.links.close_host(self.host, without_a_word=False)

    def pause(self) -> None:
        """Pause the process, as by SIGSTOP. Its machine continues, and keeps data that arrives."""
        if self.env is not None:
            self.is_paused = True
            self.links.freeze(self.host)

    def wake(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self.links.thaw(self.host)
            if self.env is not None:
                self.env.wake()

    def _end_life(self) -> None:
        if self.server is not None:
            self.bugs += self.server.lifecycle.unexpected_errors
        if self.env is not None:
            self.env.is_over = True
        self.server = self.env = None
        self.is_starting = self.is_stopping = False
        self.wake()
        work, self._work = self._work, None
        if work is not None:
            # The coroutine's ``finally`` blocks run now, but reach neither disk nor network.
            with suppress(PowerCut):
                work.close()
