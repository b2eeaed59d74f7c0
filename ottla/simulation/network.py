"""In-memory connections: data goes from one asyncio protocol to another in later turns of a simulated event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

CLIENT_HOST = "simulated"

Send = Callable[[Callable[[], None]], None]
"""A function that makes a call later, as if a network delivered data to the peer. Calls stay in order."""


class End:
    """The asyncio transport at one end of a connection. Written data arrives at the peer in a later turn of the event loop."""

    def __init__(self, protocol: asyncio.BaseProtocol, call_soon: Send, send: Send, peer: str = CLIENT_HOST) -> None:
        self._protocol = protocol
        self._call_soon = call_soon
        self._send = send
        self._peer = peer
        self._other: End | None = None
        self._arrived = bytearray()
        self._is_paused = False
        self.is_closed = False
        self.is_gone = False

    def joined_to(self, other: End) -> End:
        self._other = other
        return self

    def open(self) -> None:
        self._protocol.connection_made(cast(Any, self))

    # methods that the protocol calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._other is not None and not self.is_closed:
            self._send(partial(self._other.arrive, bytes(data)))

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._call_soon(self._lost)
            if self._other is not None:
                # The peer closes only after the data that was written before has arrived.
                self._send(self._other.close)

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._call_soon(self._hand_over)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return (self._peer, 1)

    def vanish(self) -> None:
        """Cut the power of this end's machine: the peer is not notified, and the peer's later data is answered with a reset."""
        self.is_closed = self.is_gone = True

    # methods that the peer calls

    def arrive(self, data: bytes) -> None:
        if self.is_gone and self._other is not None:
            self._send(self._other.close)
            return
        self._arrived += data
        self._hand_over()

    def _hand_over(self) -> None:
        protocol = self._protocol
        while self._arrived and not self._is_paused and not self.is_closed:
            if not isinstance(protocol, asyncio.BufferedProtocol):
                data, self._arrived = bytes(self._arrived), bytearray()
                cast(asyncio.Protocol, protocol).data_received(data)
                return
            room = cast(memoryview, protocol.get_buffer(-1))
            piece = self._arrived[: len(room)]
            room[: len(piece)] = piece
            del self._arrived[: len(piece)]
            protocol.buffer_updated(len(piece))

    def _lost(self) -> None:
        if not self.is_gone:
            self._protocol.connection_lost(None)


class Network:
    def __init__(self) -> None:
        self._listening: dict[tuple[str, int], Callable[[], asyncio.BufferedProtocol]] = {}

    def listen(self, host: str, port: int, factory: Callable[[], asyncio.BufferedProtocol]) -> SimulatedListening:
        self._listening[host, port] = factory
        return SimulatedListening(port, lambda: self._listening.pop((host, port), None))

    def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BufferedProtocol],
        failed: Callable[[OSError], None],
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """Connect to a listener, or call ``failed`` if the address has no listener."""
        accept = self._listening.get((host, port))
        if accept is None:
            failed(ConnectionRefusedError(f"no listener at {host}:{port}"))
            return
        near, far = End(factory(), call_soon, call_soon), End(accept(), call_soon, call_soon)
        far.joined_to(near).open()
        near.joined_to(far).open()


class SimulatedListening:
    """Implements `broker.loop.env.Listening` in memory."""

    def __init__(self, port: int, on_close: Callable[[], object]) -> None:
        self.port = port
        self.close = on_close
