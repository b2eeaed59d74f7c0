"""Requests and responses of one connection: the pending requests, and the response that each of them must get, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.broker.handlers.registry import SERVED
from ottla.protocol.codec import DECODE_FAILURES, api, decode_body, decode_response_frame, read_client_id
from ottla.protocol.errors import Code, DecodeError
from ottla.protocol.messages import APIS
from tests.fuzz import refusals


class Failure(AssertionError):
    """The broker violated a guarantee. The trace reproduces the violation."""

    is_hold = False


class Held(Failure):
    """One request, timer or step blocked the event loop for too long."""

    is_hold = True


@dataclass(slots=True)
class Exchange:
    """A request and its response. ``request`` is None if the request cannot be decoded."""

    key: int
    version: int
    correlation_id: int
    request: Any
    response: Any = None

    def __str__(self) -> str:
        return f"{APIS[self.key].name} version {self.version}"


def parsed(frame: bytes) -> Exchange | None:
    """Decode a frame as the broker should. Returns None if the broker must close the connection."""
    if len(frame) < 8:
        return None
    key, version = int.from_bytes(frame[:2], "big", signed=True), int.from_bytes(frame[2:4], "big", signed=True)
    correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
    if key not in SERVED:
        return None
    if not APIS[key].min_version <= version <= APIS[key].max_version:
        return Exchange(18, 0, correlation_id, None) if key == 18 else None
    codec = api(key)
    try:
        _, at = read_client_id(frame, flexible=version >= codec.flexible_from)
        request = decode_body(codec.decode_request, frame, at, version, may_trail=True)
    except DECODE_FAILURES:
        return None
    return Exchange(key, version, correlation_id, request)


class Conversation:
    """One connection: the bytes sent of an incomplete frame, and the requests that await a response, in order."""

    def __init__(self) -> None:
        self._sent = bytearray()
        self.due: deque[Exchange] = deque()

    def sent(self, raw: bytes) -> list[str]:
        """Record sent bytes. Returns the names of the requests that these bytes complete."""
        self._sent += raw
        names = []
        while len(self._sent) >= 4:
            size = int.from_bytes(self._sent[:4], "big", signed=True)
            if size <= 0 or len(self._sent) < 4 + size:
                break
            exchange = parsed(bytes(self._sent[4 : 4 + size]))
            del self._sent[: 4 + size]
            names.append("an unreadable frame" if exchange is None else str(exchange))
            if exchange is None:
                # The broker closes the connection at this frame. It still answers earlier requests.
                self._sent.clear()
                break
            if exchange.key != 0 or exchange.request.acks != 0:
                self.due.append(exchange)
        return names

    def received(self, frame: bytes) -> Exchange:
        """Return the exchange that a response belongs to.

        Raises `Failure` if the response cannot be decoded, or belongs to no request.
        """
        if not self.due:
            raise Failure(f"an answer that nobody asked for: {frame[:40].hex()}")
        exchange = self.due.popleft()
        try:
            correlation_id, exchange.response = decode_response_frame(exchange.key, exchange.version, frame)
        except DecodeError as error:
            raise Failure(f"{exchange}: the answer cannot be decoded: {error}") from error
        if correlation_id != exchange.correlation_id:
            raise Failure(f"{exchange}: answer {correlation_id} in the place of {exchange.correlation_id}")
        return exchange

    def lost(self) -> None:
        """Record that the connection was closed, and drop its pending requests."""
        self._sent.clear()
        self.due.clear()


def is_unknown_error(exchange: Exchange) -> bool:
    """Whether a response contains UNKNOWN_SERVER_ERROR."""
    return any(code == Code.UNKNOWN_SERVER_ERROR for _, code in refusals.codes(exchange.response))
