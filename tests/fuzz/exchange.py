"""Requests and answers of one connection as they go by: what was asked, what must come back, and in which order."""

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
    """A promise that was not kept. The trace reproduces it."""

    is_hold = False


class Held(Failure):
    """The loop was held for too long."""

    is_hold = True


@dataclass(slots=True)
class Exchange:
    """One request and its answer. ``request`` is None where it cannot be decoded."""

    key: int
    version: int
    correlation_id: int
    request: Any
    response: Any = None

    def __str__(self) -> str:
        return f"{APIS[self.key].name} version {self.version}"


def parsed(frame: bytes) -> Exchange | None:
    """What the broker should make of a frame; None if it must close the connection."""
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
    """One connection: what was sent of a frame that is not whole yet, and the requests whose answers are due, in order."""

    def __init__(self) -> None:
        self._sent = bytearray()
        self.due: deque[Exchange] = deque()

    def sent(self, raw: bytes) -> list[str]:
        """Bytes were sent; the names of the requests that are whole by them."""
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
                # The connection is closed here: what was asked before is still answered.
                self._sent.clear()
                break
            if exchange.key != 0 or exchange.request.acks != 0:
                self.due.append(exchange)
        return names

    def received(self, frame: bytes) -> Exchange:
        """The exchange that an answer belongs to. Raises `Failure` for one that is wrong in itself."""
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
        """The connection is closed, and its pending requests are dropped."""
        self._sent.clear()
        self.due.clear()


def is_unknown_error(exchange: Exchange) -> bool:
    """Whether an answer holds UNKNOWN_SERVER_ERROR."""
    return any(code == Code.UNKNOWN_SERVER_ERROR for _, code in refusals.codes(exchange.response))
