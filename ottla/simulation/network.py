"""Connections between simulated brokers: bytes go from one protocol to another in the turns of a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

CLIENT_HOST = "simulated"

P = TypeVar("P", bound=asyncio.BufferedProtocol)


class End:
    """The transport of one side, as far as protocols here use one. What is written arrives at the other side in a later turn."""

    def __init__(self, protocol: asyncio.BufferedProtocol, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._protocol = protocol
        self._call_soon = call_soon
        self._other: End | None = None
        self._arrived = bytearray()
        self._is_paused = False
        self._is_closed = False

    def joined_to(self, other: End) -> End:
        self._other = other
        return self

    def open(self) -> None:
        self._protocol.connection_made(cast(Any, self))

    # what a protocol calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._other is not None and not self._is_closed:
            self._call_soon(partial(self._other._arrive, bytes(data)))

    def writelines(self, parts: list[bytes]) -> None:
        for part in parts:
            self.write(part)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._call_soon(self._lost)
            if self._other is not None:
                # After what was written before.
                self._call_soon(self._other.close)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closed

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._call_soon(self._hand_over)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return (CLIENT_HOST, 1)

    # what arrives

    def _arrive(self, data: bytes) -> None:
        self._arrived += data
        self._hand_over()

    def _hand_over(self) -> None:
        while self._arrived and not self._is_paused and not self._is_closed:
            room = cast(memoryview, self._protocol.get_buffer(-1))
            piece = self._arrived[: len(room)]
            room[: len(piece)] = piece
            del self._arrived[: len(piece)]
            self._protocol.buffer_updated(len(piece))

    def _lost(self) -> None:
        self._protocol.connection_lost(None)


class Network:
    """Who listens at which host and port."""

    def __init__(self) -> None:
        self._listening: dict[tuple[str, int], Callable[[], asyncio.BufferedProtocol]] = {}

    def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> SimulatedListening:
        self._listening[host, port] = factory
        return SimulatedListening(port, lambda: self._listening.pop((host, port), None))

    def connect(self, host: str, port: int, factory: Callable[[], P], call_soon: Callable[[Callable[[], None]], None]) -> P:
        """Raises ConnectionRefusedError where nobody listens."""
        accept = self._listening.get((host, port))
        if accept is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        protocol = factory()
        near, far = End(protocol, call_soon), End(accept(), call_soon)
        far.joined_to(near).open()
        near.joined_to(far).open()
        return protocol


class SimulatedListening:
    """`broker.env.SimulatedListening`."""

    def __init__(self, port: int, on_close: Callable[[], object]) -> None:
        self.port = port
        self.close = on_close
