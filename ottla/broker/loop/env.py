"""The broker's only access to the outside world: clock, randomness, files, timers and sockets.

A simulation can replace `RealEnv`. A lint test keeps every other module from bypassing this one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Protocol

from ottla.addresses import joined_address
from ottla.protocol.uuids import typeable_uuid
from ottla.storage.filesystem import Filesystem
from ottla.storage.real_filesystem import RealFilesystem


def random_uuid() -> bytes:
    """A random UUID of version 4, in 16 bytes. As in Kafka, its text does not begin with a dash."""
    return typeable_uuid(lambda: uuid.uuid4().bytes)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, ms since 1970."""
        ...

    def monotonic_ms(self) -> float: ...

    def steady_ms(self) -> int:
        """The wall clock at the start of the process plus the time since then, in ms.

        This clock never jumps, so all timeouts of the broker's state use it.
        """
        ...


class Randomness(Protocol):
    def random_uuid(self) -> bytes:
        """A random UUID of version 4, in 16 bytes."""
        ...


class Timers(Protocol):
    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def call_by_clock(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` after ``delay_ms`` on the clock of `Clock.steady_ms`, which a test may stop and move.

        Timeouts of the broker's state use this clock. To wait for a client or a disk, use `call_later`, which follows the machine's
        time.
        """
        ...


class Env(Clock, Randomness, Timers, Protocol):
    """All access to the outside world. Most parts of the broker need only one of its base protocols."""

    fs: Filesystem

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run blocking ``work``, which must share no state, in a worker thread.

        ``done`` is then called on the event loop with the exception that ``work`` raised, or None.
        """
        ...

    def finish_aside(self) -> None:
        """Block until no work of `run_aside` is running. The ``done`` callbacks are called later, because the loop is blocked."""
        ...

    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> Listening: ...

    def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        tls: ssl.SSLContext | None = None,
    ) -> ConnectionAttempt:
        """Connect to a host. Either the protocol that ``factory`` creates is connected, or ``failed`` is called with the error.

        With ``tls`` the protocol is connected after the handshake. If the host does not answer, neither happens for a long time,
        so the caller must cancel the attempt.
        """
        ...

    def waiter(self) -> Waiter:
        """Create a `Waiter` for a coroutine that waits for an event."""
        ...

    def host_name(self) -> str: ...

    def open_file_limit(self) -> int:
        """Raise the process's limit of file descriptors as far as the operating system allows, and return it."""
        ...


class Waiter(Protocol):
    """One coroutine awaits this object, and continues in a later turn of the event loop, not within the call of `release`."""

    def __await__(self) -> Generator[Any, Any, None]: ...

    def release(self) -> None:
        """End the wait. A second call does nothing."""
        ...


class ConnectionAttempt(Protocol):
    """A connection that `Env.connect` is establishing."""

    def cancel(self) -> None:
        """Cancel the attempt: neither ``factory`` nor ``failed`` is called later. Does nothing after one of them was called."""
        ...


class Listening(Protocol):
    """An open listener and its port."""

    port: int

    def close(self) -> None: ...


class _RealListening:
    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers
        self.port: int = servers[0].sockets[0].getsockname()[1]

    def close(self) -> None:
        for server in self._servers:
            server.close()


class _RealAttempt:
    def __init__(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._failed = failed
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._connect(loop, host, port, factory, tls))
        _CONNECTING.add(self._task)
        self._task.add_done_callback(_CONNECTING.discard)

    async def _connect(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        try:
            await loop.create_connection(factory, host, port, ssl=tls)
        except OSError as error:
            self._failed(error)
        except (OverflowError, ValueError) as error:
            # The address is invalid, such as a port above 65,535 or a host name that is too long.
            self._failed(OSError(f"{joined_address((host, port))}: {error}"))

    def cancel(self) -> None:
        self._task.cancel()


_CONNECTING: set[asyncio.Task[None]] = set()
"""The tasks that are connecting. An event loop itself keeps only weak references to its tasks."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The monotonic clock that includes the time while the machine sleeps, on systems that have one."""


def _uptime_ms() -> int:
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


MAX_ASIDE_THREADS = 8
"""Maximum number of threads of `Env.run_aside`. `loop.stepping` uses `ASIDE_AT_ONCE` of them, `partitions.durability` one."""
MAX_DESCRIPTORS = 1 << 20
"""The highest limit of file descriptors that the process requests."""


class TimeSource(Protocol):
    """The clock of a `RealEnv`."""

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int: ...

    def call_by_clock(self, delay_ms: float, callback: Callable[[], None]) -> Timer: ...


class WallClock:
    """The clock of this machine."""

    def __init__(self) -> None:
        self._started_ms = self.now_ms() - _uptime_ms()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return self._started_ms + _uptime_ms()

    def call_by_clock(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)


class _LoopWaiter:
    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._future.__await__()

    def release(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class RealEnv:
    """`Env` on this machine. ``clock`` replaces the machine's clock."""

    def __init__(self, clock: TimeSource | None = None) -> None:
        self.fs: Filesystem = RealFilesystem()
        clock = WallClock() if clock is None else clock
        self.now_ms = clock.now_ms
        self.steady_ms = clock.steady_ms
        self.call_by_clock = clock.call_by_clock
        self._executor = ThreadPoolExecutor(MAX_ASIDE_THREADS, "aside")
        self._aside: set[Future[None]] = set()

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000

    def random_uuid(self) -> bytes:
        return random_uuid()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        loop = asyncio.get_running_loop()
        future = self._executor.submit(work)
        self._aside.add(future)

        def finished() -> None:
            self._aside.discard(future)
            done(future.exception())

        def wake_loop(_: Future[None]) -> None:
            # RuntimeError: the event loop is closed, so no caller waits for the result.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finished)

        future.add_done_callback(wake_loop)

    def finish_aside(self) -> None:
        wait(self._aside)

    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> Listening:
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(factory, sock=one, backlog=BACKLOG) for one in listening_sockets(host, port)]
        return _RealListening(servers)

    def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        tls: ssl.SSLContext | None = None,
    ) -> ConnectionAttempt:
        return _RealAttempt(host, port, factory, failed, tls)

    def waiter(self) -> Waiter:
        return _LoopWaiter()

    def host_name(self) -> str:
        return socket.gethostname()

    def open_file_limit(self) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            # Keep the old limit on systems that refuse the hard limit that they report.
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                soft = wanted
        return wanted if soft == resource.RLIM_INFINITY else soft


NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""Errors of a machine without IPv6, which are ignored for a host name that also has an IPv4 address."""
BACKLOG = 1024


def listening_sockets(host: str, port: int, backlog: int = BACKLOG) -> list[socket.socket]:
    """Create a listening socket for each address of ``host``, all on the same port. An empty host means all interfaces.

    As with Apache Kafka, the wildcard ``::`` accepts IPv4 as well.

    Raises OSError, OverflowError and UnicodeError.
    """
    if host in ("", "::") and socket.has_dualstack_ipv6():
        try:
            return [socket.create_server(("::", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)]
        except OSError as error:
            if host or error.errno not in NO_IPV6:
                raise
    return _of_each_address(host or "0.0.0.0", port, backlog)


def _of_each_address(host: str, port: int, backlog: int) -> list[socket.socket]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first, so that the system chooses a free IPv4 port: other programs are more likely to listen on IPv4.
    addresses = sorted(dict.fromkeys((family, address) for family, _, _, _, address in found), key=lambda a: a[0])
    listening: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, address in addresses:
            chosen = listening[0].getsockname()[1] if listening else port
            try:
                listening.append(socket.create_server((address[0], chosen, *address[2:]), family=family, backlog=backlog))
            except OSError as error:
                if len(addresses) == 1 or error.errno not in NO_IPV6:
                    raise
                missing = error
        if missing is not None and not listening:
            raise missing
    except BaseException:
        for one in listening:
            one.close()
        raise
    return listening


LISTENING_PORTS = range(20_000, 32_768)
"""Ports for `free_port`, below the ephemeral ports of Linux, Windows and macOS (32768 or 49152 and above)."""
PORTS_TRIED = 100


def is_free_port(host: str, port: int) -> bool:
    """Whether no process listens on the port. A port with old connections in TIME_WAIT is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str) -> int:
    """A port of this machine that is free now.

    The port is from `LISTENING_PORTS` if possible: any connection may take an ephemeral port before a server listens on it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    first = int.from_bytes(os.urandom(4), "big")
    for at in range(PORTS_TRIED):
        port = LISTENING_PORTS[(first + at) % len(LISTENING_PORTS)]
        with socket.socket(family) as probe, suppress(OSError):
            probe.bind((host, port))
            return port
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        own: int = probe.getsockname()[1]
        return own


def process_id() -> int:
    return os.getpid()


_ADVICE = {
    errno.EADDRINUSE: "the port is in use by another process; choose another one, or 0 for a free port",
    errno.EACCES: "ports below 1024 need privileges; choose a higher one",
    errno.EADDRNOTAVAIL: "the address does not belong to this machine",
}


def why_not_bound(error: Exception) -> str:
    """Describe in one line why a socket could not be bound and what to do, in the same words for asyncio and uvloop."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None or number <= 0:
        # Errors of getaddrinfo have negative numbers and their own texts.
        return str(getattr(error, "strerror", None) or error)
    return "; ".join(filter(None, (os.strerror(number), _ADVICE.get(number))))
