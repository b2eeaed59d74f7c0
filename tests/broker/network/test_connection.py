"""Connections without sockets: requests split at any byte, the order of responses, and bugs that affect only one request."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.handlers import produce
from ottla.broker.network.connection import Connection
from ottla.broker.network.framing import RECEIVE_BYTES
from ottla.broker.network.listener import CLOSING_TICKS, Connections
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.steps import Pause, next_turn
from tests.broker.network.connected import HEARTBEAT, Transport, beats, declared, feed, limits, put, serve


def test_requests_split_at_any_byte_are_read(monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]) -> None:
    connection, transport = connected
    seen: list[int] = []
    serve(monkeypatch, lambda ports, request, context: seen.append(request.generation_id) or HeartbeatResponse())
    rng = random.Random(1)
    feed(connection, beats(300), iter(lambda: rng.randrange(1, 90), None))
    assert seen == list(range(300))
    assert [int.from_bytes(a[:4], "big") for a in transport.answers()] == list(range(300))


@pytest.mark.smoke
def test_receive_buffer_grows_for_large_requests_and_is_released(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]
) -> None:
    connection, _ = connected
    seen: list[bytes] = []

    def handle(ports: Any, request: ProduceRequest, context: Any) -> None:
        seen.append(bytes(request.topic_data[0].partition_data[0].records or b""))

    serve(monkeypatch, handle, key=0)
    payload = random.Random(2).randbytes(5_000_000)
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=payload)])]
    frame = request_frame(0, 9, 1, "c", ProduceRequest(transactional_id=None, acks=0, timeout_ms=1, topic_data=data))
    feed(connection, frame + frame, iter(lambda: 70_000, None))
    assert seen == [payload, payload]
    assert len(connection.get_buffer(-1)) == RECEIVE_BYTES


def test_declared_size_of_a_request_allocates_little_memory(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]
) -> None:
    connection, _ = connected
    feed(connection, (49_000_000).to_bytes(4, "big") + bytes(1 << 16), iter(lambda: 1 << 20, None))
    assert len(connection.get_buffer(-1)) <= 1 << 20


def test_responses_are_sent_in_request_order(monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]) -> None:
    connection, transport = connected
    parked = {number: Pause[HeartbeatResponse](is_parked=True) for number in (0, 2)}
    serve(
        monkeypatch, lambda ports, request, context: parked.get(request.generation_id) or HeartbeatResponse(request.generation_id)
    )
    feed(connection, beats(4), iter(lambda: 1 << 16, None))
    assert transport.answers() == []
    parked[2].end(HeartbeatResponse(2))
    assert transport.answers() == []
    parked[0].end(HeartbeatResponse(0))
    assert [decode_response_frame(HEARTBEAT, 4, a) for a in transport.answers()] == [(i, HeartbeatResponse(i)) for i in range(4)]


def test_exception_in_a_handler_is_logged_once_and_fails_only_one_request(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected

    def handle(ports: Any, request: HeartbeatRequest, context: Any) -> HeartbeatResponse:
        if request.generation_id == 1:
            raise RuntimeError("a bug")
        return HeartbeatResponse()

    serve(monkeypatch, handle)
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    codes = [decode_response_frame(HEARTBEAT, 4, a)[1].error_code for a in transport.answers()]
    assert codes == [0, Code.UNKNOWN_SERVER_ERROR, 0]
    assert broker.lifecycle.unexpected_errors == 1
    assert not transport.closed


def test_exception_in_a_produce_with_acks_0_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected

    def handle(ports: Any, request: ProduceRequest, context: Any) -> None:
        raise RuntimeError("a bug")

    put(monkeypatch, declared(0, handle, produce.failed))
    request = ProduceRequest(transactional_id=None, acks=0, timeout_ms=1, topic_data=[])
    feed(connection, request_frame(0, 9, 1, "c", request), iter(lambda: 1 << 16, None))
    assert broker.lifecycle.unexpected_errors == 1
    assert transport.closed


def test_unencodable_response_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    serve(monkeypatch, lambda ports, request, context: HeartbeatResponse("not a number"))  # type: ignore[arg-type]
    feed(connection, beats(2), iter(lambda: 1 << 16, None))
    assert transport.closed
    assert broker.lifecycle.unexpected_errors == 1


def test_request_that_arrives_after_the_close_is_not_handled(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]
) -> None:
    connection, _ = connected
    seen: list[int] = []
    serve(monkeypatch, lambda ports, request, context: seen.append(request.generation_id) or HeartbeatResponse())
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    connection.close("a test")
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    assert seen == [0]


def test_idle_connections_are_closed(connected: tuple[Connection, Transport], broker: Any) -> None:
    _, transport = connected
    broker.connections.close_idle()
    assert not transport.closed
    broker.connections.close_idle()
    assert transport.closed
    assert not transport.aborted
    for _ in range(CLOSING_TICKS):
        broker.connections.close_idle()
    assert not transport.aborted, "the last responses may still be sent"
    broker.connections.close_idle()
    assert transport.aborted


@pytest.mark.parametrize(("setting", "descriptors"), [(1, 1 << 20), (1 << 20, 1)])
def test_connections_above_the_limit_are_refused(broker: Any, setting: int, descriptors: int) -> None:
    broker.connections = Connections(broker.env, limits(max_connections=setting), descriptors)
    transports = [Transport(), Transport()]
    for transport in transports:
        Connection(broker, "PLAINTEXT").connection_made(transport)  # type: ignore[arg-type]
    assert [t.closed for t in transports] == [False, True]


def test_connection_limit_can_be_raised_over_a_local_connection_when_reached(broker: Any) -> None:
    """The console sets max.connections through a local connection, which has no address."""
    broker.connections = Connections(broker.env, limits(max_connections=0, max_connections_per_ip=0), 1)
    remote, first, second = Transport(), Transport(), Transport()
    Connection(broker, "PLAINTEXT").connection_made(remote)  # type: ignore[arg-type]
    for transport in (first, second):
        transport.get_extra_info = lambda name, default=None: default  # type: ignore[method-assign]
        Connection(broker, "PLAINTEXT").connection_made(transport)  # type: ignore[arg-type]
    assert [one.closed for one in (remote, first, second)] == [True, False, True], "descriptors bound local connections too"


def test_connection_limit_per_address_is_enforced(broker: Any) -> None:
    for overrides, closed in (("", [False, True]), ("test:2,10.0.0.1:0", [False, False])):
        broker.connections = Connections(
            broker.env, limits(max_connections_per_ip=1, max_connections_per_ip_overrides=overrides), 1 << 20
        )
        transports = [Transport(), Transport()]
        connections = [Connection(broker, "PLAINTEXT") for _ in transports]
        for connection, transport in zip(connections, transports, strict=True):
            connection.connection_made(transport)  # type: ignore[arg-type]
        assert [t.closed for t in transports] == closed
        connections[0].connection_lost(None)
        again = Transport()
        Connection(broker, "PLAINTEXT").connection_made(again)  # type: ignore[arg-type]
        assert not again.closed


def test_request_handled_in_steps_is_answered_before_later_requests(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    trace: list[str] = []

    async def in_steps(request: HeartbeatRequest) -> Any:
        for step in range(2):
            trace.append(f"{request.generation_id}.{step} {request.group_id}")
            await next_turn()
        return HeartbeatResponse(request.generation_id)

    def handle(ports: Any, request: HeartbeatRequest, context: Any) -> Any:
        trace.append(str(request.generation_id))
        return in_steps(request) if request.generation_id == 1 else HeartbeatResponse(request.generation_id)

    serve(monkeypatch, handle)
    other = Connection(broker, "PLAINTEXT")
    other.connection_made(Transport())  # type: ignore[arg-type]
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    assert trace == ["0", "1", "1.0 g"]
    assert transport.is_paused
    feed(other, beats(1), iter(lambda: 1 << 16, None))
    assert trace == ["0", "1", "1.0 g", "0"], "other connections are served between two steps"
    broker.env.settle()
    assert trace == ["0", "1", "1.0 g", "0", "1.1 g", "2"]
    assert not transport.is_paused
    assert [decode_response_frame(HEARTBEAT, 4, a) for a in transport.answers()] == [(i, HeartbeatResponse(i)) for i in range(3)]


def test_exception_in_a_request_step_fails_only_that_request(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected

    async def in_steps() -> Any:
        await next_turn()
        raise RuntimeError("a bug")

    serve(monkeypatch, lambda ports, request, context: in_steps() if request.generation_id == 1 else HeartbeatResponse())
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    broker.env.settle()
    codes = [decode_response_frame(HEARTBEAT, 4, a)[1].error_code for a in transport.answers()]
    assert codes == [0, Code.UNKNOWN_SERVER_ERROR, 0]
    assert broker.lifecycle.unexpected_errors == 1


def test_request_of_a_disconnected_client_is_completed(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    """A producer with acks=0 may close the connection right after its request."""
    connection, _ = connected
    done: list[int] = []

    async def in_steps(request: HeartbeatRequest) -> Any:
        await next_turn()
        done.append(request.generation_id)
        return HeartbeatResponse()

    serve(monkeypatch, lambda ports, request, context: in_steps(request))
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    connection.connection_lost(None)
    broker.env.settle()
    assert done == [0]
    assert broker.connections.request_budget.used_bytes == 0
