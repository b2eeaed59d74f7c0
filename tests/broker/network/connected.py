"""A connection without a socket, whose requests go to a handler that the test supplies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.api import Declaration
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.network.connection import Connection
from ottla.protocol.codec import request_frame
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.handling import as_handler

HEARTBEAT = 12


class Transport:
    """A transport that keeps the written bytes."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.aborted = False
        self.is_paused = False
        self.unsent_bytes = 0

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def close(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("test", 1)

    def abort(self) -> None:
        self.closed = self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def answers(self) -> list[bytes]:
        frames, at = [], 0
        while at < len(self.written):
            size = int.from_bytes(self.written[at : at + 4], "big")
            frames.append(bytes(self.written[at + 4 : at + 4 + size]))
            at += 4 + size
        return frames


def limits(**more: Any) -> Any:
    values = {
        "max_connections": 10,
        "max_connections_per_ip": 8,
        "max_connections_per_ip_overrides": "",
        "connections_max_idle_ms": 1_000,
        "queued_max_request_bytes": 64 << 20,
        "ottla_queued_max_response_bytes": 64 << 20,
        "ottla_request_stall_ms": 1_000,
        "ottla_response_stall_ms": 1_000,
    }
    return SimpleNamespace(**(values | more))


def feed(connection: Connection, data: bytes, sizes: Any) -> bytes:
    """Feed data in chunks of these sizes, and return unread bytes: a socket delivers none while reading is paused."""
    transport: Any = connection._transport
    while data and not transport.is_paused and not transport.closed:
        buffer = connection.get_buffer(-1)
        piece = data[: min(len(buffer), next(sizes))]
        buffer[: len(piece)] = piece
        connection.buffer_updated(len(piece))
        data = data[len(piece) :]
    return data


def declared(key: int, handle: Any, failed: Any, *, is_bulky: bool = False) -> Declaration:
    return Declaration(key=key, handle=as_handler(handle), failed=failed, authorisation=UNRESTRICTED, is_bulky=is_bulky)


def put(monkeypatch: pytest.MonkeyPatch, declaration: Declaration) -> None:
    """Handle requests of every API by this declaration."""
    monkeypatch.setattr("ottla.broker.apis.registry.ApiRegistry.declaration", lambda registry, key: declaration)


def serve(monkeypatch: pytest.MonkeyPatch, handle: Any, key: int = HEARTBEAT) -> None:
    put(monkeypatch, declared(key, handle, lambda request, version, code: HeartbeatResponse(throttle_time_ms=0, error_code=code)))


def beats(count: int) -> bytes:
    return b"".join(
        request_frame(HEARTBEAT, 4, i, "c", HeartbeatRequest(group_id="g", generation_id=i, member_id="m")) for i in range(count)
    )
