"""A client of a simulated broker. Requests and responses pass as bytes through the broker's own connection code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from ottla.broker.network.connection import Connection
from ottla.protocol.codec import api, decode_response_frame, request_frame
from ottla.protocol.messages import APIS

if TYPE_CHECKING:
    from ottla.simulation.env import SimulatedEnv

PATIENCE_MS = 60_000
"""Timeout of a request, in ms of simulated time."""

_KEYS = {entry.name: key for key, entry in APIS.items()}


class Closed(Exception):
    """The broker has closed the connection, or has not responded in time."""


def api_key(request: Any) -> int:
    return _KEYS[type(request).__name__.removesuffix("Request")]


def newest(request: Any) -> int:
    """Return the newest stable version of a request's API."""
    return api(api_key(request)).max_version


class _Transport:
    """Collects the broker's responses in place of a socket. ``on_closed`` is called when the connection closes."""

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
        # Join a response's parts here and not in `write`, which the broker calls: tests measure the broker's work.
        written, self._written = self._written, []
        for part in written:
            self._bytes += part
        if len(self._bytes) < 4:
            return None
        size = int.from_bytes(self._bytes[:4], "big")
        frame = bytes(self._bytes[4 : 4 + size])
        del self._bytes[: 4 + size]
        return frame


class SimulatedServer(Protocol):
    """A simulated broker or controller."""

    env: SimulatedEnv

    def connection(self) -> Connection:
        """Open a new connection to the server."""
        ...


class SimulatedClient:
    """A client with one connection. ``call(request, version)`` sends a message of `protocol.messages`, and returns the response."""

    def __init__(self, broker: SimulatedServer, client_id: str, connection: Connection | None = None) -> None:
        self._broker = broker
        self.client_id = client_id
        self._connection = connection = connection or broker.connection()
        # Keep this environment: after a restart `broker.env` is another, but closing must not run code in the new process.
        env = broker.env
        self._transport = _Transport(lambda: env.call_soon(lambda: connection.connection_lost(None)))
        self._connection.connection_made(cast(Any, self._transport))
        self._correlation_id = 0

    def send(self, request: Any, version: int) -> tuple[int, int]:
        self._correlation_id += 1
        key = api_key(request)
        self.send_bytes(request_frame(key, version, self._correlation_id, self.client_id, request))
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
        """Advance the simulated time until the response arrives, and return it. Raises `Closed`."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
