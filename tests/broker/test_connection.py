"""Connections without sockets: frames in any pieces, order of answers, bugs that stay small."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from broker import api
from broker.api import Declaration, Later
from broker.metrics.counters import Counters
from broker.network.connection import BUFFER_BYTES, Connection
from broker.network.listener import Connections
from protocol.codec import decode_response_frame, request_frame
from protocol.errors import Code
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

HEARTBEAT = 12


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def close(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("test", 1)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def answers(self) -> list[bytes]:
        found, at = [], 0
        while at < len(self.written):
            size = int.from_bytes(self.written[at : at + 4], "big")
            found.append(bytes(self.written[at + 4 : at + 4 + size]))
            at += 4 + size
        return found


def limits(**more: Any) -> Any:
    values = {
        "max_connections": 10,
        "max_connections_per_ip": 8,
        "max_connections_per_ip_overrides": "",
        "connections_max_idle_ms": 1_000,
    }
    return SimpleNamespace(**(values | more))


@pytest.fixture
def broker() -> Any:
    settings = limits(socket_request_max_bytes=50_000_000, unstable_api_versions_enable=False)
    return SimpleNamespace(
        settings=settings, connections=Connections(settings), unexpected_errors=0, counters=Counters(), commit=None
    )


@pytest.fixture
def connected(broker: Any) -> tuple[Connection, Transport]:
    connection, transport = Connection(broker, "PLAINTEXT"), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def feed(connection: Connection, data: bytes, sizes: Any) -> None:
    while data:
        buffer = connection.get_buffer(-1)
        piece = data[: min(len(buffer), next(sizes))]
        buffer[: len(piece)] = piece
        connection.buffer_updated(len(piece))
        data = data[len(piece) :]


def serve(monkeypatch: pytest.MonkeyPatch, handle: Any, key: int = HEARTBEAT) -> None:
    declared = Declaration(key, handle, lambda request, version, code: HeartbeatResponse(0, code))
    monkeypatch.setattr("broker.network.connection.declaration", lambda _: declared)


def beats(count: int) -> bytes:
    return b"".join(request_frame(HEARTBEAT, 4, i, "c", HeartbeatRequest("g", i, "m")) for i in range(count))


def test_frames_in_any_pieces(monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]) -> None:
    connection, transport = connected
    seen: list[int] = []
    serve(monkeypatch, lambda context, request: seen.append(request.generation_id) or HeartbeatResponse())
    rng = random.Random(1)
    feed(connection, beats(300), iter(lambda: rng.randrange(1, 90), None))
    assert seen == list(range(300))
    assert [int.from_bytes(a[:4], "big") for a in transport.answers()] == list(range(300))


def test_large_frames_grow_the_buffer_and_give_it_back(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]
) -> None:
    connection, _ = connected
    seen: list[bytes] = []

    def handle(context: Any, request: ProduceRequest) -> None:
        seen.append(bytes(request.topic_data[0].partition_data[0].records or b""))

    serve(monkeypatch, handle, key=0)
    payload = random.Random(2).randbytes(5_000_000)
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, payload)])]
    frame = request_frame(0, 9, 1, "c", ProduceRequest(None, 0, 1, data))
    feed(connection, frame + frame, iter(lambda: 70_000, None))
    assert seen == [payload, payload]
    assert len(connection.get_buffer(-1)) == BUFFER_BYTES


def test_a_declared_size_allocates_little(monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]) -> None:
    connection, _ = connected
    feed(connection, (49_000_000).to_bytes(4, "big") + bytes(BUFFER_BYTES), iter(lambda: 1 << 20, None))
    assert len(connection.get_buffer(-1)) <= 1 << 20


def test_answers_wait_for_those_before_them(monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]) -> None:
    connection, transport = connected
    parked = {0: Later(), 2: Later()}
    serve(monkeypatch, lambda context, request: parked.get(request.generation_id) or HeartbeatResponse(request.generation_id))
    feed(connection, beats(4), iter(lambda: 1 << 16, None))
    assert transport.answers() == []
    parked[2].resolve(HeartbeatResponse(2))
    assert transport.answers() == []
    parked[0].resolve(HeartbeatResponse(0))
    assert [decode_response_frame(HEARTBEAT, 4, a) for a in transport.answers()] == [(i, HeartbeatResponse(i)) for i in range(4)]


def test_a_bug_is_told_once_and_costs_one_request(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected

    def handle(context: Any, request: HeartbeatRequest) -> HeartbeatResponse:
        if request.generation_id == 1:
            raise RuntimeError("a bug")
        return HeartbeatResponse()

    serve(monkeypatch, handle)
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    codes = [decode_response_frame(HEARTBEAT, 4, a)[1].error_code for a in transport.answers()]
    assert codes == [0, Code.UNKNOWN_SERVER_ERROR, 0]
    assert broker.unexpected_errors == 1
    assert not transport.closed


def test_a_response_that_cannot_be_written_closes(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    serve(monkeypatch, lambda context, request: HeartbeatResponse("not a number"))  # type: ignore[arg-type]
    feed(connection, beats(2), iter(lambda: 1 << 16, None))
    assert transport.closed
    assert broker.unexpected_errors == 1


def test_idle_connections_are_closed(connected: tuple[Connection, Transport], broker: Any) -> None:
    _, transport = connected
    broker.connections.close_idle()
    assert not transport.closed
    broker.connections.close_idle()
    assert transport.closed


def test_too_many_connections_are_refused(broker: Any) -> None:
    broker.connections = Connections(limits(max_connections=1))
    transports = [Transport(), Transport()]
    for transport in transports:
        Connection(broker, "PLAINTEXT").connection_made(transport)  # type: ignore[arg-type]
    assert [t.closed for t in transports] == [False, True]


def test_later_tells_only_the_first_answer() -> None:
    heard: list[int] = []
    later = Later()
    later.resolve(1)
    later.resolve(2)
    later.on_ready(heard.append)
    assert heard == [1]
    assert api.SERVED[HEARTBEAT] == "heartbeat"


def test_too_many_connections_of_one_address_are_refused(broker: Any) -> None:
    for overrides, closed in (("", [False, True]), ("test:2,10.0.0.1:0", [False, False])):
        broker.connections = Connections(limits(max_connections_per_ip=1, max_connections_per_ip_overrides=overrides))
        transports = [Transport(), Transport()]
        connections = [Connection(broker, "PLAINTEXT") for _ in transports]
        for connection, transport in zip(connections, transports, strict=True):
            connection.connection_made(transport)  # type: ignore[arg-type]
        assert [t.closed for t in transports] == closed
        connections[0].connection_lost(None)
        again = Transport()
        Connection(broker, "PLAINTEXT").connection_made(again)  # type: ignore[arg-type]
        assert not again.closed
