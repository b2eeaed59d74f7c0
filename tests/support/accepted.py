"""The server's end of a connection, which a test implements in place of another broker or a controller."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, cast

from ottla.protocol.codec import api, decode_body, read_client_id, response_parts


class AcceptedConnection(asyncio.BufferedProtocol, ABC):
    """A connection that a broker under test has opened.

    A subclass handles each request in `received`, and responds at once, later or never.
    """

    def __init__(self) -> None:
        self._buffer = bytearray(1 << 12)
        self._bytes = bytearray()
        self.client_id: str | None = None
        self.is_lost = False

    @abstractmethod
    def received(self, key: int, version: int, correlation_id: int, request: Any) -> None: ...

    def respond(self, key: int, version: int, correlation_id: int, message: Any) -> None:
        self.transport.write(b"".join(response_parts(api(key), version, correlation_id, message)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._bytes += self._buffer[:nbytes]
        while len(self._bytes) >= 4 and len(self._bytes) >= 4 + (size := int.from_bytes(self._bytes[:4], "big")):
            frame = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
            self.client_id, body_at = read_client_id(frame, flexible=version >= api(key).flexible_from)
            request = decode_body(api(key).decode_request, frame, body_at, version)
            self.received(key, version, int.from_bytes(frame[4:8], "big"), request)
