"""Encrypts the responses on a connection with TLS in pieces, as fast as the client reads them.

asyncio and uvloop encrypt all data that they are given at once. The buffer for encrypted data then grows to the size of the largest
response, and OpenSSL keeps it as long as the connection is open; their transports do not report the encrypted bytes that the socket
has not accepted. Here, responses wait unencrypted, so that the memory of a connection is counted, and is small once the client has
read its responses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

PIECE_BYTES = 1 << 16
"""Size of a piece in bytes: four records of TLS."""
MIN_LOW_BYTES = 4 * PIECE_BYTES
MIN_HIGH_BYTES = 4 * MIN_LOW_BYTES
TURN_BYTES = 1 << 20
"""Bytes that are encrypted in one turn of the event loop, in about a millisecond."""


class PacedTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The transport that a connection uses, which is also the protocol that the transport of TLS calls.

    ``tls`` is the transport of TLS, ``below`` the transport of the socket, and ``connection`` the protocol of the connection.
    """

    def __init__(self, tls: asyncio.Transport, below: asyncio.Transport, connection: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._tls, self._below, self._connection = tls, below, connection
        # The transport of TLS looks up these two methods once, so that reading is as fast as without this class.
        self.get_buffer = connection.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = connection.buffer_updated  # type: ignore[method-assign]
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._high_bytes, self._low_bytes = MIN_HIGH_BYTES, MIN_LOW_BYTES
        self._is_tls_paused = self._is_connection_paused = False
        self._is_scheduled = self._is_closing = False
        tls.set_write_buffer_limits(high=PIECE_BYTES)

    # Callbacks of the transport of TLS

    def pause_writing(self) -> None:
        self._is_tls_paused = True

    def resume_writing(self) -> None:
        self._is_tls_paused = False
        self._write_pieces()

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._connection.connection_lost(exc)

    # The methods that the connection calls

    def write(self, data: Any) -> None:
        if not self._queue and not self._is_tls_paused and len(data) <= PIECE_BYTES:
            self._tls.write(data)
        else:
            self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self._queue.append(memoryview(data).cast("B"))
            self._queued_bytes += len(self._queue[-1])
        if not self._is_scheduled:
            self._write_pieces()
        if not self._is_connection_paused and self.get_write_buffer_size() > self._high_bytes:
            self._is_connection_paused = True
            self._connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Number of bytes of responses that the system has not accepted yet, encrypted or not."""
        return self._queued_bytes + self._tls.get_write_buffer_size() + self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits at which the connection pauses and resumes. Raises ValueError for a lower limit that is too low."""
        self._high_bytes = MIN_HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low
        # The connection resumes when pieces are written, so what stays in the buffers of TLS and of the socket must be below the
        # lower limit.
        if self._low_bytes < MIN_LOW_BYTES:
            raise ValueError(f"the lower limit is {self._low_bytes} bytes; it must be at least {MIN_LOW_BYTES}")

    def close(self) -> None:
        """Close the connection after all responses were sent."""
        self._is_closing = True
        if self._queue:
            # As after the close of a plain transport, the connection gets no further requests.
            self._tls.pause_reading()
        else:
            self._tls.close()

    def abort(self) -> None:
        self._is_closing = True
        self._forget()
        self._tls.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._tls.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._tls.pause_reading()

    def resume_reading(self) -> None:
        self._tls.resume_reading()

    def is_reading(self) -> bool:
        return self._tls.is_reading()

    # Encrypting in pieces

    def _write_pieces(self) -> None:
        """Encrypt until the client must read, at most `TURN_BYTES`."""
        if self._tls.is_closing():
            self._forget()
            return
        left_bytes = TURN_BYTES
        while self._queue and not self._is_tls_paused and left_bytes > 0:
            first = self._queue[0]
            piece = first[:PIECE_BYTES]
            if len(piece) == len(first):
                self._queue.popleft()
            else:
                self._queue[0] = first[PIECE_BYTES:]
            self._queued_bytes -= len(piece)
            left_bytes -= len(piece)
            self._tls.write(piece)
        if self._queue and not self._is_tls_paused and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._is_closing and not self._queue:
            self._tls.close()
        elif self._is_connection_paused and self.get_write_buffer_size() <= self._low_bytes:
            self._is_connection_paused = False
            self._connection.resume_writing()

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._write_pieces()

    def _forget(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0
