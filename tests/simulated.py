"""A broker without sockets, disk or clock: requests go in as bytes, time passes when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from ottla.broker.broker import Broker
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.connection import Connection
from ottla.coordinator.cluster import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.storage.filesystem import Filesystem
from ottla.storage.memory_filesystem import MemoryFilesystem
from tests.raw import Closed, api_key, newest
from tests.simulated_network import Listening, Network, P

START_MS = 1_700_000_000_000
PATIENCE_MS = 60_000
DATA_DIR = "/data"
OPEN_FILE_LIMIT = 1 << 20
FREE_PORT = 9092
"""What a listener on port 0 gets."""


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SimulatedEnv:
    """`broker.env.Env` whose time stands still until it is moved."""

    def __init__(self, fs: Filesystem, rng: random.Random, now_ms: int) -> None:
        self.fs = fs
        self.network = Network()
        self._rng = rng
        self._now_ms = now_ms
        self.wall_jump_ms = 0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._soon: deque[Callable[[], None]] = deque()

    def now_ms(self) -> int:
        return self._now_ms + self.wall_jump_ms

    def monotonic_ms(self) -> float:
        return float(self._now_ms)

    def steady_ms(self) -> int:
        return self._now_ms

    def random_uuid(self) -> bytes:
        return self._rng.randbytes(16)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run_aside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        try:
            work()
        except Exception as error:
            failure: BaseException | None = error
        else:
            failure = None
        self.call_soon(lambda: done(failure))

    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> Listening:
        return self.network.listen(host, port or FREE_PORT, factory)

    async def connect(self, host: str, port: int, factory: Callable[[], P]) -> P:
        return self.network.connect(host, port, factory, self.call_soon)

    def host_name(self) -> str:
        return "simulated"

    def open_file_limit(self) -> int:
        return OPEN_FILE_LIMIT

    # time

    def settle(self) -> None:
        """Run what was to be called soon."""
        while self._soon:
            self._soon.popleft()()

    def advance(self, by_ms: float) -> None:
        """Let time pass, timers fire in order."""
        end = self._now_ms + by_ms
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, int(at))
            if timer.callback is not None:
                timer.callback()
            self.settle()
        self._now_ms = int(end)


class _Transport:
    """The far end of a connection: keeps frames that were written. ``on_closed`` is what asyncio calls connection_lost by."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed
        self._bytes = bytearray()
        self._written: list[bytes] = []
        self.is_closed = False
        self.is_paused = False

    def write(self, data: bytes) -> None:
        self._written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self._written += parts

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._on_closed()

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("simulated", 1)

    def abort(self) -> None:
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def next_frame(self) -> bytes | None:
        # Joined here, by the client, and at no cost to the broker that writes.
        written, self._written = self._written, []
        for part in written:
            self._bytes += part
        if len(self._bytes) < 4:
            return None
        size = int.from_bytes(self._bytes[:4], "big")
        frame = bytes(self._bytes[4 : 4 + size])
        del self._bytes[: 4 + size]
        return frame


class SimulatedClient:
    """What `tests.raw.RawClient` is, without the socket."""

    def __init__(self, broker: SimulatedBroker, client_id: str) -> None:
        self._broker = broker
        self._client_id = client_id
        self._connection = connection = Connection(broker.broker, "PLAINTEXT")
        self._transport = _Transport(lambda: broker.env.call_soon(lambda: connection.connection_lost(None)))
        self._connection.connection_made(cast(Any, self._transport))
        self._correlation_id = 0

    def send(self, request: Any, version: int) -> tuple[int, int]:
        self._correlation_id += 1
        key = api_key(request)
        self.send_bytes(request_frame(key, version, self._correlation_id, self._client_id, request))
        return key, version

    def send_bytes(self, data: bytes) -> None:
        while data and not self._transport.is_closed:
            if self._transport.is_paused:
                self._broker.env.settle()
            if self._transport.is_paused:
                self._broker.env.advance(10)
                continue
            buffer = self._connection.get_buffer(-1)
            piece = data[: len(buffer)]
            buffer[: len(piece)] = piece
            self._connection.buffer_updated(len(piece))
            data = data[len(piece) :]
        self._broker.env.settle()

    def receive(self, sent: tuple[int, int]) -> Any:
        """Time passes until the answer is there. Raises `Closed`."""
        frame = self._transport.next_frame()
        waited_ms = 0
        while frame is None:
            if self._transport.is_closed or waited_ms > PATIENCE_MS:
                raise Closed("closed" if self._transport.is_closed else "no answer")
            self._broker.env.advance(10)
            waited_ms += 10
            frame = self._transport.next_frame()
        return decode_response_frame(*sent, frame)[1]

    def call(self, request: Any, version: int | None = None) -> Any:
        return self.receive(self.send(request, newest(request) if version is None else version))

    def close(self) -> None:
        self._transport.close()
        self._broker.env.settle()

    def __enter__(self) -> SimulatedClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SimulatedBroker:
    """A broker in this process that can be stopped, killed and started again on its files."""

    env_type = SimulatedEnv

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        features: dict[str, int] | None = None,
        *,
        fs: Filesystem | None = None,
        seed: int = 1,
        now_ms: int = START_MS,
    ) -> None:
        self._settings = {"log.dirs": DATA_DIR, **(settings or {})}
        self._features = features or {}
        self.fs = MemoryFilesystem() if fs is None else fs
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self.env = self.env_type(self.fs, self._rng, now_ms)
        self.bugs = 0

    def start(self) -> SimulatedBroker:
        self.env = self.env_type(self.fs, self._rng, self.env.steady_ms() + 5)
        self.broker = Broker(cast(Any, self.env), BrokerConfig(self._settings), self._features)
        self._loop.run_until_complete(self.broker.start())
        self.env.settle()
        return self

    def with_coordinators(self) -> SimulatedBroker:
        """Started, and a client has looked for its coordinators: their topics are there."""
        for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            self.broker.cluster.ensure_internal(topic)
        return self

    def stop(self) -> None:
        self._loop.run_until_complete(self.broker.stop())
        self._gone()

    def kill(self) -> None:
        crashed: Callable[[], None] | None = getattr(self.fs, "crashed", None)
        if crashed is not None:
            crashed()
        else:
            # The operating system closes a killed process's files, and frees its lock.
            self.broker.directory.abandon()
        self._gone()

    def _gone(self) -> None:
        # A killed broker's timers never fire: its environment is left behind.
        self.bugs += self.broker.unexpected_errors

    def restart(self, *, kill: bool = False) -> SimulatedBroker:
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def close(self) -> None:
        self.stop()
        self._loop.close()

    def abandon(self) -> None:
        """Killed, and never started again."""
        self.kill()
        self._loop.close()

    def connect(self, client_id: str = "simulated") -> SimulatedClient:
        return SimulatedClient(self, client_id)

    def sleep(self, ms: float) -> None:
        self.env.advance(ms)

    def now_ms(self) -> int:
        return self.env.now_ms()
