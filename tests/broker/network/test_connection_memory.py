"""Memory held for a connection counts toward the budgets, limits the connection, and is released when it closes."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from ottla.broker.network.connection import Connection
from ottla.broker.network.connection_memory import MAX_WAITING_ANSWERS
from ottla.broker.network.dispatch import ELEMENTS_AT_ONCE
from ottla.protocol.codec import request_frame
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.steps import Pause, next_turn
from tests.broker.network.connected import HEARTBEAT, Transport, beats, declared, feed, put, serve


async def parked_until_cancelled(request: HeartbeatRequest, cancelled: list[int]) -> HeartbeatResponse:
    try:
        return await Pause[HeartbeatResponse](is_parked=True)
    finally:
        cancelled.append(request.generation_id)


@pytest.mark.smoke
def test_client_that_reads_no_responses_is_paused(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, _ = connected
    seen: list[int] = []
    answer = FetchResponse(
        responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, high_watermark=0, records=bytes(3 << 20))])]
    )

    def handle(ports: Any, request: FetchRequest, context: Any) -> FetchResponse:
        seen.append(1)
        return answer

    put(monkeypatch, declared(1, handle, lambda *_: FetchResponse(), is_bulky=True))
    feed(connection, b"".join(request_frame(1, 11, i, "c", FetchRequest()) for i in range(100)), iter(lambda: 1 << 16, None))
    assert len(seen) <= 2
    connection.pause_writing()
    broker.env.settle()
    assert len(seen) <= 2
    connection.resume_writing()
    broker.env.settle()
    assert len(seen) == 100, "all requests are handled after the client has read"


def test_large_responses_wait_for_the_shared_memory_budget(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    seen: list[int] = []
    monkeypatch.setattr(
        "ottla.broker.apis.registry.ApiRegistry.declaration",
        lambda registry, key: declared(
            key,
            lambda ports, request, context: seen.append(key) or HeartbeatResponse(),
            lambda *_: HeartbeatResponse(),
            is_bulky=key == HEARTBEAT,
        ),
    )
    slow, slow_transport = Connection(broker, "PLAINTEXT"), Transport()
    slow.connection_made(slow_transport)  # type: ignore[arg-type]
    slow_transport.unsent_bytes = broker.settings.ottla_queued_max_response_bytes
    slow.pause_writing()
    feed(connection, beats(2), iter(lambda: 1 << 16, None))
    assert seen == []
    assert transport.is_paused
    broker.env.advance(2 * broker.settings.ottla_response_stall_ms)
    assert slow_transport.closed
    assert len(transport.answers()) == 2


def test_requests_with_many_elements_are_decoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    counts: list[int] = []

    def handle(ports: Any, request: MetadataRequest, context: Any) -> MetadataResponse:
        counts.append(len(request.topics or []))
        return MetadataResponse()

    put(monkeypatch, declared(3, handle, lambda *_: MetadataResponse(), is_bulky=True))
    many = [MetadataRequestTopic(name=f"t{n}") for n in range(ELEMENTS_AT_ONCE + 1)]
    frames = [request_frame(3, 12, 1, "c", MetadataRequest(topics)) for topics in (many, many[:3])]
    rest = feed(connection, b"".join(frames), iter(lambda: 1 << 14, None))
    assert counts == []
    assert broker.connections.request_budget.used_bytes > 0
    broker.env.settle()
    feed(connection, rest, iter(lambda: 1 << 14, None))
    assert counts == [len(many), 3]
    assert len(transport.answers()) == 2
    assert broker.connections.request_budget.used_bytes == 0


def test_malformed_request_with_many_elements_closes_the_connection(connected: tuple[Connection, Transport], broker: Any) -> None:
    connection, transport = connected
    many = [MetadataRequestTopic(name=f"t{n}") for n in range(ELEMENTS_AT_ONCE + 1)]
    frame = request_frame(3, 12, 1, "c", MetadataRequest(many))[4:-30]
    feed(connection, len(frame).to_bytes(4, "big") + frame, iter(lambda: 1 << 16, None))
    broker.env.settle()
    assert transport.closed
    assert broker.lifecycle.unexpected_errors == 0


def test_parked_requests_of_a_connection_are_bounded(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    parked: list[Pause[HeartbeatResponse]] = []

    def handle(ports: Any, request: HeartbeatRequest, context: Any) -> Pause[HeartbeatResponse]:
        parked.append(Pause(is_parked=True))
        return parked[-1]

    serve(monkeypatch, handle)
    feed(connection, beats(MAX_WAITING_ANSWERS + 10), iter(lambda: 1 << 18, None))
    assert len(parked) == MAX_WAITING_ANSWERS
    assert transport.is_paused
    for pause in list(parked):
        pause.end(HeartbeatResponse())
    assert len(parked) == MAX_WAITING_ANSWERS + 10
    assert not transport.is_paused


def test_parked_requests_are_abandoned_when_the_client_disconnects(monkeypatch: pytest.MonkeyPatch, broker: Any) -> None:
    connection = Connection(broker, "PLAINTEXT")
    connection.connection_made(Transport())  # type: ignore[arg-type]
    abandoned: list[int] = []
    serve(monkeypatch, lambda ports, request, context: parked_until_cancelled(request, abandoned))
    feed(connection, beats(2), iter(lambda: 1 << 16, None))
    gone = weakref.ref(connection)
    connection.connection_lost(None)
    assert abandoned == [0, 1]
    gc.disable()
    try:
        del connection
        assert gone() is None, "the request is freed without the garbage collector"
    finally:
        gc.enable()


def test_pending_response_of_a_disconnected_client_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, _ = connected
    abandoned: list[int] = []

    async def in_steps(request: HeartbeatRequest) -> Any:
        await next_turn()
        return await parked_until_cancelled(request, abandoned)

    serve(monkeypatch, lambda ports, request, context: in_steps(request))
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    connection.connection_lost(None)
    broker.env.settle()
    assert abandoned == [0]


def test_request_parked_after_work_in_several_steps_counts_in_the_memory_budget(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, _ = connected
    pause = Pause[MetadataResponse](is_parked=True)

    async def in_steps(request: MetadataRequest) -> Any:
        await next_turn()
        return await pause

    put(monkeypatch, declared(3, lambda ports, request, context: in_steps(request), lambda *_: MetadataResponse()))
    topics = [MetadataRequestTopic(name=str(n)) for n in range(2 * ELEMENTS_AT_ONCE)]
    frame = request_frame(3, 12, 1, "c", MetadataRequest(topics))
    feed(connection, frame, iter(lambda: 1 << 16, None))
    broker.env.settle()
    assert broker.connections.request_budget.used_bytes > len(frame) + 100 * len(topics)
    pause.end(MetadataResponse())
    broker.env.settle()
    assert broker.connections.request_budget.used_bytes == 0


def test_unsent_small_responses_count_in_the_memory_budget(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    serve(monkeypatch, lambda ports, request, context: HeartbeatResponse())
    transport.unsent_bytes = 60_000
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    assert broker.connections.response_budget.used_bytes == 60_000
    transport.unsent_bytes = 0
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    assert not broker.connections.response_budget._holders


def test_paused_connection_is_not_disconnected_as_stalled(connected: tuple[Connection, Transport], broker: Any) -> None:
    """The client reads no responses, so the broker stopped reading from it: the client cannot send the rest of its request."""
    connection, transport = connected
    budget = broker.connections.request_budget
    feed(connection, (1 << 20).to_bytes(4, "big") + bytes(100_000), iter(lambda: 1 << 16, None))
    connection.pause_writing()
    budget.charge(object(), budget.limit_bytes)
    other, other_transport = Connection(broker, "PLAINTEXT"), Transport()
    other.connection_made(other_transport)  # type: ignore[arg-type]
    third, third_transport = Connection(broker, "PLAINTEXT"), Transport()
    third.connection_made(third_transport)  # type: ignore[arg-type]
    for connection_of in (other, third):
        feed(connection_of, (1 << 20).to_bytes(4, "big") + bytes(100_000), iter(lambda: 1 << 16, None))
    assert budget.waiting_count
    broker.env.advance(3 * broker.settings.ottla_request_stall_ms)
    assert not transport.closed
    assert other_transport.closed, "a client that could send the rest but does not is closed"
