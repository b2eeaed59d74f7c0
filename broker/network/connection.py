"""One client's connection: frames, dispatch, and responses in the order of the requests.

Bytes are read into a buffer of the connection's own. A request is handled while its bytes lie there, so a handler
may use views into it, but must copy what it keeps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

import structlog

from broker.api import SERVED, Context, Declaration, Later, declaration, newest_version
from protocol.codec import API_VERSIONS_KEY, DECODE_FAILURES, Api, decode_body, read_client_id, response_parts
from protocol.errors import Code
from protocol.messages import APIS
from protocol.primitives import Buffer

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.durability import GroupCommit

BUFFER_BYTES = 1 << 16
KEPT_BUFFER_BYTES = 1 << 21
"""A buffer grown for a large request is kept up to this size."""
GROWTH_START_BYTES = 1 << 20
"""A frame's buffer starts at most this large and doubles as bytes arrive: never by the declared size alone."""
MAX_PARKED_RESPONSES = 1_000
"""Requests of one connection that wait for an answer before it is read no further."""
JOIN_BELOW_BYTES = 1 << 16
WRITE_HIGH_BYTES = 4 << 20

_SIZE = Struct(">i")
_HEADER = Struct(">hhi")

log = structlog.get_logger("connection")


class _Slot:
    """The place of one response in the order of answers."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Buffer] | None = None


class Connection(asyncio.BufferedProtocol):
    """Made by the listener for each client."""

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._out: list[Buffer] = []
        self._waiting: deque[_Slot] = deque()
        self._transport: asyncio.Transport | None = None
        self._paused_by_peer = False
        self._paused_reading = False
        self._in_update = False
        self._contexts: dict[tuple[int, int], tuple[Declaration, Api, Context, bytes, int]] = {}
        self._requests = broker.counters.requests
        self._max_frame_bytes = broker.settings.socket_request_max_bytes
        self.connection_id = 0
        self.peer = ""
        self.last_tick = broker.connections.tick

    # transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if peer else ""
        if not self._broker.connections.opened(self):
            self.close("too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting.clear()
        self._broker.connections.closed(self)

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.last_tick = self._broker.connections.tick
        self._in_update = True
        try:
            self._consume()
        finally:
            self._in_update = False
        self._flush()

    def pause_writing(self) -> None:
        self._paused_by_peer = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._paused_by_peer = False
        self._update_reading()

    def close(self, reason: str) -> None:
        if self._transport is not None:
            log.info("connection_closed", peer=self.peer, reason=reason)
            self._flush()
            self._transport.close()
            self._transport = None

    # frames

    def _consume(self) -> None:
        view, start, end = self._view, self._start, self._end
        size = 0
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(view, start)
            if size <= 0 or size > self._max_frame_bytes:
                self.close(f"a frame of {size} bytes")
                return
            if end - start - 4 < size:
                break
            frame = view[start + 4 : start + 4 + size]
            start += 4 + size
            self._request(frame)
            if self._transport is None:
                return
            size = 0
        if start == end:
            start = end = 0
            if len(view) > KEPT_BUFFER_BYTES:
                self._replace_buffer(BUFFER_BYTES, b"")
        elif start or end == len(view):
            rest = view[start:end]
            need = 4 + size
            if need > len(view):
                grown = min(need, max(2 * len(rest), GROWTH_START_BYTES))
                self._replace_buffer(max(grown, len(view)), rest)
            else:
                view[: end - start] = bytes(rest)
            start, end = 0, end - start
        self._start, self._end = start, end

    def _replace_buffer(self, size: int, rest: Buffer) -> None:
        buffer = bytearray(size)
        buffer[: len(rest)] = rest
        self._buffer, self._view = buffer, memoryview(buffer)

    # requests

    def _request(self, frame: memoryview) -> None:
        try:
            key, version, correlation_id = _HEADER.unpack_from(frame)
            known = self._contexts.get((key, version))
            if known is None:
                known = self._introduce(key, version, correlation_id, frame)
                if known is None:
                    return
            api, codec, context, header, body = known
            if frame[8:body] != header:
                context, body = self._other_client(codec, version, frame)
            request = decode_body(codec.decode_request, frame, body, version, may_trail=True)
            self._requests[key, version] += 1
        except DECODE_FAILURES as error:
            self.close(f"undecodable request: {error}")
            return
        try:
            response = api.handle(context, request)
        except Exception:
            self._bug("request_failed", codec, version)
            response = api.failed(request, version, Code.UNKNOWN_SERVER_ERROR)
        if response is None:
            return
        if type(response) is Later:
            self._park(codec, version, correlation_id, response)
        else:
            self._answer(self._encoded(codec, version, correlation_id, response))

    def _bug(self, event: str, codec: Api, version: int) -> None:
        log.exception(event, api=codec.name, version=version, peer=self.peer)
        self._broker.unexpected_errors += 1

    def _encoded(self, codec: Api, version: int, correlation_id: int, response: Any) -> list[Buffer]:
        """The frame; where a bug made a response that cannot be written, nothing, and the connection is closed."""
        try:
            return response_parts(codec, version, correlation_id, response)
        except Exception:
            self._bug("response_not_writable", codec, version)
            self.close("a response that cannot be written")
            return []

    def _introduce(
        self, key: int, version: int, correlation_id: int, frame: memoryview
    ) -> tuple[Declaration, Api, Context, bytes, int] | None:
        """The first request of this API and version: look everything up once. None when it was answered or refused."""
        entry = APIS.get(key)
        if key not in SERVED or entry is None:
            self.close(f"unknown API key {key}")
            return None
        newest = newest_version(key, unstable=self._broker.settings.unstable_api_versions_enable)
        if not entry.min_version <= version <= newest:
            if key == API_VERSIONS_KEY:
                api = declaration(key)
                self._answer(response_parts(api.codec, 0, correlation_id, api.failed(None, 0, Code.UNSUPPORTED_VERSION)))
            else:
                self.close(f"{entry.name} version {version} is not served")
            return None
        api = declaration(key)
        codec = api.codec
        context, body = self._other_client(codec, version, frame)
        known = (api, codec, context, bytes(frame[8:body]), body)
        self._contexts[key, version] = known
        return known

    def _other_client(self, codec: Api, version: int, frame: memoryview) -> tuple[Context, int]:
        client_id, body = read_client_id(frame, flexible=version >= codec.flexible_from)
        return Context(self._broker, version, client_id or "", self.peer, self.connection_id, self._listener), body

    # responses

    def _answer(self, parts: list[Buffer]) -> None:
        commit = self._broker.commit
        if commit is not None and commit.is_pending:
            slot = _Slot()
            self._waiting.append(slot)
            self._update_reading()
            self._fill_when_durable(commit, slot, parts)
        elif self._waiting:
            slot = _Slot()
            slot.parts = parts
            self._waiting.append(slot)
        else:
            self._out += parts

    def _fill_when_durable(self, commit: GroupCommit, slot: _Slot, parts: list[Buffer]) -> None:
        commit.then(lambda durable: self._fill(slot, parts) if durable else self.close("the disk has failed"))

    def _fill(self, slot: _Slot, parts: list[Buffer]) -> None:
        """An answer that was waited for is there: it goes out with all that were waiting behind it."""
        if self._transport is None:
            return
        slot.parts = parts
        waiting = self._waiting
        while waiting and waiting[0].parts is not None:
            self._out += waiting.popleft().parts or []
        if not self._in_update:
            self._flush()
        self._update_reading()

    def _park(self, codec: Api, version: int, correlation_id: int, later: Later) -> None:
        slot = _Slot()
        self._waiting.append(slot)

        def ready(response: Any) -> None:
            if self._transport is None:
                return
            parts = self._encoded(codec, version, correlation_id, response)
            commit = self._broker.commit
            if commit is not None and commit.is_pending and not later.is_durable:
                self._fill_when_durable(commit, slot, parts)
            else:
                self._fill(slot, parts)

        later.on_ready(ready)
        self._update_reading()

    def _flush(self) -> None:
        out, transport = self._out, self._transport
        if not out or transport is None:
            return
        self._out = []
        if len(out) == 1:
            transport.write(out[0])
        elif sum(map(len, out)) < JOIN_BELOW_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(_merged(out))

    def _update_reading(self) -> None:
        """Read no further while the peer does not take its answers, or too many wait."""
        if self._transport is None:
            return
        pause = self._paused_by_peer or len(self._waiting) >= MAX_PARKED_RESPONSES
        if pause and not self._paused_reading:
            self._paused_reading = True
            self._transport.pause_reading()
        elif not pause and self._paused_reading:
            self._paused_reading = False
            self._transport.resume_reading()


def _merged(parts: list[Buffer]) -> list[Buffer]:
    """Small pieces joined, large ones left as they are: few buffers for one writev."""
    merged: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) < 4096:
            small.append(part)
            continue
        if small:
            merged.append(b"".join(small))
            small = []
        merged.append(part)
    if small:
        merged.append(b"".join(small))
    return merged
