"""Attacks on connections before, during and after authentication, without sockets: other requests, slow frames, fuzzing."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.apis.registry import ApiRegistry
from ottla.broker.network.listener import IDLE_TICK_MS
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.codec import request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.steps import Pause
from ottla.security.principal import KafkaPrincipal
from tests.broker.network.connected import HEARTBEAT, declared, feed
from tests.broker.network.test_authentication import (
    AUTHENTICATE,
    DELAY_MS,
    HANDSHAKE,
    PLAIN,
    SESSION_MS,
    VERSIONS,
    SaslClient,
)
from tests.security.sasl.conversations import ScramClient, credential

LIMIT_BYTES = 524_288
OTHERS = sorted(set(APIS) - {HANDSHAKE, VERSIONS, AUTHENTICATE})
BEAT = request_frame(HEARTBEAT, 4, 3, "c", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))


class World:
    """A broker that records heartbeats with their principals, or parks them."""

    def __init__(self, broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = broker
        self.handled: list[KafkaPrincipal] = []
        self.waits: Pause[None] | None = None
        broker.settings.sasl_server_max_receive_size = LIMIT_BYTES
        broker.settings.connection_failed_authentication_delay_ms = DELAY_MS
        broker.timers, broker.cluster_state = broker.env, ClusterState(1)
        credentials: Any = {"alice": {1: credential("SCRAM-SHA-256", "hush")}}
        broker.cluster_state.credentials.by_user = credentials
        beat = declared(HEARTBEAT, lambda services, request, context: self._beat(context), _failed)
        versions = declared(VERSIONS, lambda services, request, context: ApiVersionsResponse(), _versions_failed)
        apis, found = {HEARTBEAT: beat, VERSIONS: versions}, ApiRegistry.declaration
        monkeypatch.setattr(ApiRegistry, "declaration", lambda registry, key: apis.get(key) or found(registry, key))

    async def _beat(self, context: Any) -> HeartbeatResponse:
        self.handled.append(context.principal)
        if self.waits is not None:
            await self.waits
        return HeartbeatResponse()

    def connect(self, **given: str) -> SaslClient:
        return SaslClient(self.broker, {name.replace("_", "."): text for name, text in given.items()})


def _failed(request: object, version: int, code: Code) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def _versions_failed(request: object, version: int, code: Code) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


@pytest.fixture
def world(broker: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(broker, monkeypatch)


def _nothing(client: SaslClient) -> None:
    """Leave the client unauthenticated."""


def _during(client: SaslClient) -> None:
    client.handshake()


def _again(client: SaslClient) -> None:
    client.handshake()
    client.authenticate()
    client.handshake()


@pytest.mark.parametrize("before", [_nothing, _during, _again], ids=["before", "during", "again"])
def test_only_authentication_apis_are_handled_without_authentication(world: World, before: Callable[[SaslClient], None]) -> None:
    for key in OTHERS:
        for version in (0, APIS[key].max_version):
            client = world.connect(connections_max_reauth_ms=str(SESSION_MS))
            before(client)
            client.send(struct.pack(">ihhih", 12, key, version, 1, -1) + b"\xff\xff")
            client.scheduler.advance(DELAY_MS)
            assert client.transport.closed, key
            # The right password is sent after the connection was refused.
            client.send(request_frame(AUTHENTICATE, 2, 2, "c", SaslAuthenticateRequest(auth_bytes=PLAIN)) + BEAT)
    assert world.handled == []


def test_slow_unauthenticated_client_uses_little_more_memory_than_it_has_sent(world: World) -> None:
    client = world.connect()
    client.send(struct.pack(">i", LIMIT_BYTES))
    sent = 0
    while sent < LIMIT_BYTES - 1:
        piece = min(1 + sent, LIMIT_BYTES - 1 - sent)
        feed(client.connection, bytes(piece), repeat(1 << 20))
        sent += piece
        assert len(client.connection.get_buffer(-1)) + sent <= 4 * sent + (1 << 13)
    assert not client.transport.closed


def test_unauthenticated_clients_share_the_limit_of_unread_requests(world: World) -> None:
    """All clients together may use queued.max.request.bytes and one frame. Clients that stall are closed while others wait."""
    budget, limit_bytes = world.broker.connections.request_budget, 1 << 20
    budget.limit_bytes = limit_bytes
    clients = [world.connect() for _ in range(8)]
    for client in clients:
        feed(client.connection, struct.pack(">i", LIMIT_BYTES) + bytes(400_000), repeat(1 << 16))
    assert budget.used_bytes <= limit_bytes + LIMIT_BYTES + 4
    assert budget.waiting_count
    world.broker.env.scheduler.advance(10 * budget.stall_ms)
    assert budget.closed_count


def test_parked_request_is_answered_after_its_sasl_session_has_ended(world: World) -> None:
    """As in Kafka, the parked request's response is sent, and the next request is refused."""
    client = world.connect(connections_max_reauth_ms=str(SESSION_MS))
    client.handshake()
    client.authenticate()
    world.waits = Pause(is_parked=True)
    assert client.beat() is None
    client.scheduler.advance(SESSION_MS + 1)
    assert not client.transport.closed
    world.waits.end()
    client.scheduler.settle()
    assert client.response(HEARTBEAT, 4).error_code == Code.NONE
    assert client.beat() is None
    assert client.transport.closed
    assert len(world.handled) == 1


def test_reauthentication_waits_for_the_response_to_a_parked_request(world: World) -> None:
    client = world.connect(connections_max_reauth_ms=str(SESSION_MS))
    client.handshake()
    client.authenticate()
    waits = world.waits = Pause(is_parked=True)
    assert client.beat() is None
    world.waits = None
    handshake = request_frame(HANDSHAKE, 1, 1, "c", SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(handshake + request_frame(AUTHENTICATE, 2, 2, "c", SaslAuthenticateRequest(auth_bytes=PLAIN)) + BEAT)
    waits.end()
    client.scheduler.settle()
    # Responses keep the order of the requests.
    assert [int.from_bytes(answer[:4], "big") for answer in client.transport.answers()[-4:]] == [1, 1, 2, 3]
    assert {str(principal) for principal in world.handled} == {"User:alice"}


@pytest.mark.parametrize(("before", "key"), [(_nothing, VERSIONS), (_during, AUTHENTICATE)], ids=["before", "during"])
def test_tagged_fields_are_limited_before_authentication(world: World, before: Callable[[SaslClient], None], key: int) -> None:
    """SaslHandshake has no tagged fields. The three APIs have no arrays."""
    tags = bytes([0x81, 0x01]) + b"".join(bytes([0x80 | number % 128, number >> 7, 0]) for number in range(129))
    version = APIS[key].max_version
    frames = [struct.pack(">hhih", key, version, 1, -1) + tags, request_frame(key, version, 1, "c", _of(key))[4:-1] + tags]
    for frame in frames:
        client = world.connect()
        before(client)
        with capture_logs() as lines:
            client.send(struct.pack(">i", len(frame)) + frame)
        assert client.transport.closed
        assert "129 tagged fields; at most 128 are allowed" in lines[-1]["reason"]
        world.broker.connections.errors.succeeded(client.connection.peer)
    assert world.handled == []


def _of(key: int) -> Any:
    if key == VERSIONS:
        return ApiVersionsRequest(client_software_name="c", client_software_version="1")
    return SaslAuthenticateRequest(auth_bytes=PLAIN)


@pytest.mark.parametrize("before", [_nothing, _during, _again], ids=["before", "during", "again"])
def test_client_that_stays_silent_before_authentication_is_disconnected(world: World, before: Callable[[SaslClient], None]) -> None:
    """connections.max.idle.ms is the only limit in time, as in Kafka."""
    client = world.connect(connections_max_reauth_ms=str(SESSION_MS))
    before(client)
    for _ in range(world.broker.settings.connections_max_idle_ms // IDLE_TICK_MS + 1):
        assert not client.transport.closed
        world.broker.connections.close_idle()
    world.broker.connections.close_idle()
    assert client.transport.closed


def _frames(random_: random.Random) -> list[bytes]:
    """Return the frames of a conversation with a wrong password or without a password."""
    scram = ScramClient("SCRAM-SHA-256", random_.choice(["alice", "mallory"]), "wrong")
    tokens = [b"\0alice\0wrong", b"\0mallory\0hush", b"", b"\0\0", scram.first(), b"c=biws,r=x,p=AAAA", b"\1"]
    mechanism = random_.choice(["PLAIN", "SCRAM-SHA-256", "GSSAPI", "\0"])
    version = random_.choice([0, 1])
    frames = [
        request_frame(VERSIONS, 3, 1, "c", ApiVersionsRequest(client_software_name="c", client_software_version="1")),
        request_frame(HANDSHAKE, version, 1, "c", SaslHandshakeRequest(mechanism=mechanism)),
        *(
            request_frame(
                AUTHENTICATE, random_.choice([0, 1, 2]), 2, "c", SaslAuthenticateRequest(auth_bytes=random_.choice(tokens))
            )
            for _ in range(random_.choice([1, 2]))
        ),
        BEAT,
    ]
    if version == 0:
        bare = random_.choice(tokens)
        frames.insert(2, struct.pack(">i", len(bare)) + bare)
    return frames


def _mutated(random_: random.Random, frames: list[bytes]) -> bytes:
    """Exchange, repeat and drop frames, and change, insert and remove bytes."""
    chosen = [frame for frame in frames for _ in range(random_.choice([0, 1, 1, 1, 1, 2]))]
    if random_.random() < 0.3:
        random_.shuffle(chosen)
    data = bytearray(b"".join(chosen))
    for _ in range(random_.choice([0, 0, 1, 2, 5, 20])):
        if not data:
            break
        at = random_.randrange(len(data))
        match random_.randrange(4):
            case 0:
                data[at] = random_.randrange(256)
            case 1:
                data[at] ^= 1 << random_.randrange(8)
            case 2:
                del data[at : at + random_.choice([1, 1, 4, 30])]
            case _:
                data[at:at] = random_.randbytes(random_.choice([1, 2, 4, 40]))
    return bytes(data)


def play(world: World, inputs: int, seed: int) -> set[str]:
    """Send mutated conversations, each on a new connection. Returns the connections' final states.

    Checks that no client is authenticated, and that no conversation causes an unexpected exception or keeps memory.
    """
    outcomes = set()
    random_ = random.Random(seed)
    with capture_logs() as lines:
        for number in range(inputs):
            client = world.connect()
            feed(client.connection, _mutated(random_, _frames(random_)), repeat(random_.choice([1, 3, 64, 1 << 16])))
            client.scheduler.settle()
            client.scheduler.advance(DELAY_MS)
            assert world.handled == [], (seed, number)
            assert len(client.transport.written) < 1 << 16
            outcomes.add("closed" if client.transport.closed else "open")
            client.connection.connection_lost(None)
            assert not [line for line in lines if line["log_level"] in ("error", "critical")], (seed, number, lines)
            lines.clear()
    assert len(world.broker.connections) == 0
    return outcomes


def test_fuzzed_sasl_conversations_are_never_authenticated(world: World) -> None:
    assert play(world, 300, seed=1) == {"closed", "open"}


@pytest.mark.full
@pytest.mark.parametrize("seed", [2])
def test_5000_fuzzed_sasl_conversations_are_never_authenticated(world: World, seed: int) -> None:
    play(world, 5_000, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 20))
def test_50000_fuzzed_sasl_conversations_are_never_authenticated(world: World, seed: int) -> None:
    play(world, 5_000, seed)
