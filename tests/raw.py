"""A request-level client for tests: any request at any version, over a plain socket."""

from __future__ import annotations

import contextlib
import socket
from types import TracebackType
from typing import Any, Self

from protocol.codec import api, decode_response_frame, request_frame
from protocol.messages import APIS

_KEYS = {entry.name: key for key, entry in APIS.items()}
TIMEOUT_S = 10.0


class Closed(Exception):
    """The broker closed the connection."""


class RawClient:
    """One connection. ``call(request, version)`` sends a message of protocol.messages and returns the response."""

    def __init__(self, bootstrap: str, client_id: str | None = "raw") -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0

    def send(self, request: Any, version: int) -> tuple[int, int]:
        """Send without waiting; what `receive` needs to read the answer."""
        key = _KEYS[type(request).__name__.removesuffix("Request")]
        self._correlation_id += 1
        self.send_bytes(request_frame(key, version, self._correlation_id, self._client_id, request))
        return key, version

    def receive(self, sent: tuple[int, int]) -> Any:
        _, message = decode_response_frame(*sent, self.receive_frame())
        return message

    def call(self, request: Any, version: int | None = None) -> Any:
        """Raises `Closed`. The newest stable version is the default."""
        if version is None:
            version = api(_KEYS[type(request).__name__.removesuffix("Request")]).max_version
        return self.receive(self.send(request, version))

    def send_bytes(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def receive_frame(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                piece = self._socket.recv(size - len(found))
            except ConnectionError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed(f"after {len(found)} of {size} bytes")
            found += piece
        return found

    def is_closed(self) -> bool:
        """Whether the broker has closed this connection, without an answer."""
        try:
            self._read(1)
        except Closed:
            return True
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
