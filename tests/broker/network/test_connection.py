"""Connections without sockets: frames in any pieces, order of answers, bugs that stay small."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from broker import api
from broker.api import Declaration, Later
from broker.metrics.counters import Counters
from broker.network.connection import MAX_WAITING_ANSWERS, Connection
from broker.network.dispatch import ELEMENTS_AT_ONCE
from broker.network.framing import RECEIVE_BYTES
from broker.network.listener import Connections
from broker.stepping import Stepping
from protocol.codec import decode_response_frame, request_frame
from protocol.errors import Code
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.memory_filesystem import MemoryFilesystem
from tests.simulated import START_MS, SimulatedEnv

HEARTBEAT = 12


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
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
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

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
        "queued_max_request_bytes": 64 << 20,
        "ottla_queued_max_response_bytes": 64 << 20,
        "ottla_request_stall_ms": 1_000,
        "ottla_response_stall_ms": 1_000,
    }
    return SimpleNamespace(**(values | more))


@pytest.fixture
def broker() -> Any:
    settings = limits(socket_request_max_bytes=50_000_000, unstable_api_versions_enable=False)
    env = SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS)
    return SimpleNamespace(
        env=env,
        settings=settings,
        stepping=Stepping(env),
        connections=Connections(env, settings, 1 << 20),
        unexpected_errors=0,
        counters=Counters(),
        commit=None,
    )


@pytest.fixture
def connected(broker: Any) -> tuple[Connection, Transport]:
    connection, transport = Connection(broker, "PLAINTEXT"), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def feed(connection: Connection, data: bytes, sizes: Any) -> bytes:
    """What the connection did not read: a socket gives nothing while reading is paused."""
    transport: Any = connection._transport
    while data and not transport.is_paused and not transport.closed:
        buffer = connection.get_buffer(-1)
        piece = data[: min(len(buffer), next(sizes))]
        buffer[: len(piece)] = piece
        connection.buffer_updated(len(piece))
        data = data[len(piece) :]
    return data


def serve(monkeypatch: pytest.MonkeyPatch, handle: Any, key: int = HEARTBEAT) -> None:
    declared = Declaration(key, handle, lambda request, version, code: HeartbeatResponse(0, code))
    monkeypatch.setattr("broker.network.dispatch.declaration", lambda _: declared)


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
    assert len(connection.get_buffer(-1)) == RECEIVE_BYTES


def test_a_declared_size_allocates_little(monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]) -> None:
    connection, _ = connected
    feed(connection, (49_000_000).to_bytes(4, "big") + bytes(1 << 16), iter(lambda: 1 << 20, None))
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


@pytest.mark.parametrize(("setting", "descriptors"), [(1, 1 << 20), (1 << 20, 1)])
def test_too_many_connections_are_refused(broker: Any, setting: int, descriptors: int) -> None:
    broker.connections = Connections(broker.env, limits(max_connections=setting), descriptors)
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


def test_a_request_in_steps_goes_before_those_behind_it(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    trace: list[str] = []

    def in_steps(request: HeartbeatRequest) -> Any:
        for step in range(2):
            trace.append(f"{request.generation_id}.{step} {request.group_id}")
            yield None
        return HeartbeatResponse(request.generation_id)

    def handle(context: Any, request: HeartbeatRequest) -> Any:
        trace.append(str(request.generation_id))
        return in_steps(request) if request.generation_id == 1 else HeartbeatResponse(request.generation_id)

    serve(monkeypatch, handle)
    other = Connection(broker, "PLAINTEXT")
    other.connection_made(Transport())  # type: ignore[arg-type]
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    assert trace == ["0", "1"]
    assert transport.is_paused
    feed(other, beats(1), iter(lambda: 1 << 16, None))
    assert trace == ["0", "1", "0"], "others are served meanwhile"
    broker.env.settle()
    assert trace == ["0", "1", "0", "1.0 g", "1.1 g", "2"]
    assert not transport.is_paused
    assert [decode_response_frame(HEARTBEAT, 4, a) for a in transport.answers()] == [(i, HeartbeatResponse(i)) for i in range(3)]


def test_a_bug_in_a_step_costs_one_request(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected

    def in_steps() -> Any:
        yield None
        raise RuntimeError("a bug")

    serve(monkeypatch, lambda context, request: in_steps() if request.generation_id == 1 else HeartbeatResponse())
    feed(connection, beats(3), iter(lambda: 1 << 16, None))
    broker.env.settle()
    codes = [decode_response_frame(HEARTBEAT, 4, a)[1].error_code for a in transport.answers()]
    assert codes == [0, Code.UNKNOWN_SERVER_ERROR, 0]
    assert broker.unexpected_errors == 1


def test_a_client_that_leaves_is_served_to_the_end(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    """A producer that asks for no answer may close right behind its request."""
    connection, _ = connected
    done: list[int] = []

    def in_steps(request: HeartbeatRequest) -> Any:
        yield None
        done.append(request.generation_id)
        return HeartbeatResponse()

    serve(monkeypatch, lambda context, request: in_steps(request))
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    connection.connection_lost(None)
    broker.env.settle()
    assert done == [0]
    assert broker.connections.request_budget.used_bytes == 0


def test_who_takes_no_answers_is_not_served_further(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, _ = connected
    seen: list[int] = []
    answer = FetchResponse(
        responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, high_watermark=0, records=bytes(3 << 20))])]
    )

    def handle(context: Any, request: FetchRequest) -> FetchResponse:
        seen.append(1)
        return answer

    monkeypatch.setattr(
        "broker.network.dispatch.declaration", lambda _: Declaration(1, handle, lambda *_: FetchResponse(), is_bulky=True)
    )
    feed(connection, b"".join(request_frame(1, 11, i, "c", FetchRequest()) for i in range(100)), iter(lambda: 1 << 16, None))
    assert len(seen) <= 2
    connection.pause_writing()
    broker.env.settle()
    assert len(seen) <= 2
    connection.resume_writing()
    broker.env.settle()
    assert len(seen) == 100, "each two of them wait for a turn"


def test_large_answers_wait_for_the_memory_of_all(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    seen: list[int] = []
    monkeypatch.setattr(
        "broker.network.dispatch.declaration",
        lambda key: Declaration(
            key, lambda context, request: seen.append(key) or HeartbeatResponse(), lambda *_: HeartbeatResponse(), key == HEARTBEAT
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


def test_requests_of_many_elements_are_decoded_aside(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    counts: list[int] = []

    def handle(context: Any, request: MetadataRequest) -> MetadataResponse:
        counts.append(len(request.topics or []))
        return MetadataResponse()

    monkeypatch.setattr(
        "broker.network.dispatch.declaration", lambda _: Declaration(3, handle, lambda *_: MetadataResponse(), is_bulky=True)
    )
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


def test_an_undecodable_request_of_many_elements_closes(connected: tuple[Connection, Transport], broker: Any) -> None:
    connection, transport = connected
    many = [MetadataRequestTopic(name=f"t{n}") for n in range(ELEMENTS_AT_ONCE + 1)]
    frame = request_frame(3, 12, 1, "c", MetadataRequest(many))[4:-30]
    feed(connection, len(frame).to_bytes(4, "big") + frame, iter(lambda: 1 << 16, None))
    broker.env.settle()
    assert transport.closed
    assert broker.unexpected_errors == 0


def test_parked_requests_of_a_connection_are_bounded(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport], broker: Any
) -> None:
    connection, transport = connected
    parked: list[Later] = []

    def handle(context: Any, request: HeartbeatRequest) -> Later:
        parked.append(Later())
        return parked[-1]

    serve(monkeypatch, handle)
    feed(connection, beats(MAX_WAITING_ANSWERS + 10), iter(lambda: 1 << 18, None))
    assert len(parked) == MAX_WAITING_ANSWERS
    assert transport.is_paused
    for later in list(parked):
        later.resolve(HeartbeatResponse())
    assert len(parked) == MAX_WAITING_ANSWERS + 10
    assert not transport.is_paused


def test_a_client_that_leaves_abandons_what_it_waited_for(
    monkeypatch: pytest.MonkeyPatch, connected: tuple[Connection, Transport]
) -> None:
    connection, _ = connected
    abandoned: list[int] = []
    serve(monkeypatch, lambda context, request: Later(on_abandoned=lambda: abandoned.append(request.generation_id)))
    feed(connection, beats(2), iter(lambda: 1 << 16, None))
    gone = weakref.ref(connection)
    connection.connection_lost(None)
    assert abandoned == [0, 1]
    gc.disable()
    try:
        del connection, connected
        assert gone() is None or sys.getrefcount(gone()) <= 4
    finally:
        gc.enable()
