"""Connections of listeners with SASL, without sockets: what a client may send before it is authenticated, and sessions that end.

tests/wire/authentication compares the same requests with Apache Kafka.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.registry import ApiRegistry
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import client_endpoints
from ottla.broker.network.listener_security import ListenerSecurity
from ottla.coordinator.metadata.client_quotas import ClientQuotas
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.delegation_tokens import StoredToken
from ottla.coordinator.quota.precedence import of_user
from ottla.protocol.codec import api, decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.principal import KafkaPrincipal
from tests.broker.network.connected import HEARTBEAT, Transport, declared, feed
from tests.security.sasl.conversations import ScramClient, credential

HANDSHAKE, VERSIONS, AUTHENTICATE = 17, 18, 36
PLAIN = b"\0alice\0hush"
DELAY_MS = 100
SESSION_MS = 60_000
GIVEN = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hush" user_bob="secret";'
    ),
}


class SaslClient:
    """A client of a connection without a socket."""

    def __init__(self, broker: Any, given: dict[str, str]) -> None:
        self.broker, self.scheduler = broker, broker.env.scheduler
        self.transport = Transport()
        config = BrokerConfig({**GIVEN, **given})
        security = ListenerSecurity(broker, config, client_endpoints(config.settings))
        made = security.connection("SASL_PLAINTEXT")
        assert isinstance(made, Connection)
        self.connection = made
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.read = 0

    def send(self, raw: bytes) -> None:
        feed(self.connection, raw, repeat(1 << 20))
        self.scheduler.settle()

    def request(self, key: int, version: int, request: Any) -> Any:
        """Send a request; returns the response, or None if there is none yet."""
        self.send(request_frame(key, version, 1, "c", request))
        return self.response(key, version)

    def response(self, key: int, version: int) -> Any:
        frames = self.transport.answers()[self.read :]
        self.read += len(frames)
        return decode_response_frame(key, version, frames[0])[1] if frames else None

    def versions(self) -> Any:
        return self.request(VERSIONS, 3, ApiVersionsRequest(client_software_name="c", client_software_version="1"))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.request(HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def authenticate(self, token: bytes = PLAIN) -> Any:
        return self.request(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))

    def beat(self) -> Any:
        return self.request(HEARTBEAT, 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))

    def delayed(self, key: int, version: int) -> Any:
        """Return the response that is sent after the delay, and check that none is sent before."""
        self.scheduler.advance(DELAY_MS - 1)
        assert self.response(key, version) is None and not self.transport.closed
        self.scheduler.advance(1)
        assert self.transport.closed
        return self.response(key, version)


@pytest.fixture
def principals(monkeypatch: pytest.MonkeyPatch) -> list[KafkaPrincipal]:
    """Return the principals of the handled heartbeats."""
    seen: list[KafkaPrincipal] = []
    beat = lambda ports, request, context: seen.append(context.principal) or HeartbeatResponse()  # noqa: E731
    versions = lambda ports, request, context: ApiVersionsResponse()  # noqa: E731
    refused = lambda request, version, code: HeartbeatResponse(throttle_time_ms=0, error_code=code)  # noqa: E731
    apis = {HEARTBEAT: declared(HEARTBEAT, beat, refused), VERSIONS: declared(VERSIONS, versions, refused)}
    found = ApiRegistry.declaration
    monkeypatch.setattr(ApiRegistry, "declaration", lambda registry, key: apis.get(key) or found(registry, key))
    return seen


@pytest.fixture
def connect(broker: Any, principals: list[KafkaPrincipal]) -> Callable[..., SaslClient]:
    settings = broker.settings
    settings.sasl_server_max_receive_size = 524_288
    settings.connection_failed_authentication_delay_ms = DELAY_MS
    broker.timers, broker.cluster_state = broker.env, ClusterState(1)
    credentials: Any = {"alice": {1: credential("SCRAM-SHA-256", "hush")}}
    broker.cluster_state.credentials.by_user = credentials
    return lambda **given: SaslClient(broker, {name.replace("_", "."): text for name, text in given.items()})


@pytest.fixture
def client(connect: Callable[..., SaslClient]) -> SaslClient:
    return connect()


def test_requests_of_an_authenticated_client_have_its_principal(client: SaslClient, principals: list[KafkaPrincipal]) -> None:
    assert client.versions().error_code == Code.NONE
    assert client.handshake().mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert client.authenticate().error_code == Code.NONE
    assert client.beat().error_code == Code.NONE
    assert principals == [KafkaPrincipal("User", "alice")]


def test_scram_authentication_takes_two_client_messages(client: SaslClient, principals: list[KafkaPrincipal]) -> None:
    scram = ScramClient("SCRAM-SHA-256", "alice", "hush")
    client.handshake("SCRAM-SHA-256")
    first = client.authenticate(scram.first())
    assert client.authenticate(scram.final(bytes(first.auth_bytes))).error_code == Code.NONE
    client.beat()
    assert [principal.name for principal in principals] == ["alice"]


def test_all_brokers_of_a_cluster_send_an_unknown_user_the_same_salt(connect: Callable[..., SaslClient], broker: Any) -> None:
    """A salt that differs between brokers would reveal that the user is unknown, because a real user has one salt."""

    def salt() -> bytes:
        client = connect()
        client.handshake("SCRAM-SHA-256")
        first = bytes(client.authenticate(ScramClient("SCRAM-SHA-256", "mallory", "x").first()).auth_bytes)
        return first.split(b",")[1]

    broker.directory_id = b"a" * 16
    alone = salt()
    assert salt() == alone
    broker.directory_id = b"b" * 16
    assert salt() != alone
    registrations: Any = {2: SimpleNamespace(directories=(b"c" * 16,)), 1: SimpleNamespace(directories=(b"a" * 16,))}
    broker.cluster_state.registrations.brokers = {3: SimpleNamespace(directories=()), **registrations}
    assert salt() == alone


def test_sasl_tokens_after_handshake_version_0_have_no_request_header(client: SaslClient, principals: list[KafkaPrincipal]) -> None:
    client.handshake(version=0)
    client.send(struct.pack(">i", len(PLAIN)) + PLAIN)
    assert client.transport.answers()[client.read :] == [b""]
    client.read += 1
    client.beat()
    assert [principal.name for principal in principals] == ["alice"]


def test_refused_sasl_token_after_handshake_version_0_gets_no_response(client: SaslClient) -> None:
    client.handshake(version=0)
    client.send(struct.pack(">i", 8) + b"\0alice\0x")
    client.scheduler.advance(DELAY_MS)
    assert client.transport.closed and client.transport.answers()[client.read :] == []


def test_requests_received_with_the_last_sasl_token_are_handled_at_once(
    client: SaslClient, principals: list[KafkaPrincipal]
) -> None:
    beat = request_frame(HEARTBEAT, 4, 3, "c", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    handshake = request_frame(HANDSHAKE, 1, 1, "c", SaslHandshakeRequest(mechanism="PLAIN"))
    token = request_frame(AUTHENTICATE, 2, 2, "c", SaslAuthenticateRequest(auth_bytes=PLAIN))
    client.send(handshake + token + beat + beat)
    assert [int.from_bytes(answer[:4], "big") for answer in client.transport.answers()] == [1, 2, 3, 3]
    assert [principal.name for principal in principals] == ["alice", "alice"]


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0mallory\0hush"])
def test_failed_authentication_is_answered_after_a_delay_and_disconnected(client: SaslClient, token: bytes) -> None:
    client.handshake()
    assert client.authenticate(token) is None
    # The broker does not read a further authentication attempt.
    client.send(request_frame(AUTHENTICATE, 2, 2, "c", SaslAuthenticateRequest(auth_bytes=PLAIN)))
    answer = client.delayed(AUTHENTICATE, 2)
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert client.beat() is None


def test_response_to_an_unsupported_mechanism_lists_the_enabled_mechanisms(client: SaslClient) -> None:
    assert client.handshake("GSSAPI") is None
    answer = client.delayed(HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (Code.UNSUPPORTED_SASL_MECHANISM, ["PLAIN", "SCRAM-SHA-256"])


def test_quotas_apply_once_a_client_is_authenticated(connect: Callable[..., SaslClient], broker: Any) -> None:
    stored = ClientQuotas()
    stored.by_entity |= {of_user(name): {"request_percentage": 0.000001} for name in ("ANONYMOUS", "alice")}
    for name in ("quota_window", "controller_quota_window"):
        setattr(broker.settings, f"{name}_num", 11)
        setattr(broker.settings, f"{name}_size_seconds", 1)
    broker.quotas = ClientQuotaEnforcement(broker.env, broker.live_config, stored)
    client = connect()
    assert client.versions().throttle_time_ms == 0
    assert client.handshake().error_code == client.authenticate().error_code == Code.NONE
    assert client.beat().throttle_time_ms == 1_000


@pytest.mark.parametrize("key", sorted(set(APIS) - {HANDSHAKE, VERSIONS}))
def test_client_that_sends_another_request_before_authentication_is_disconnected(
    client: SaslClient, principals: list[KafkaPrincipal], key: int
) -> None:
    """The request's header is enough to refuse it; its body is not decoded."""
    client.send(struct.pack(">ihhih", 12, key, APIS[key].max_version, 1, -1) + b"\xff\xff")
    assert client.transport.closed and client.transport.answers() == [] and principals == []


def test_other_request_instead_of_a_sasl_token_gets_illegal_sasl_state(
    client: SaslClient, principals: list[KafkaPrincipal]
) -> None:
    client.handshake()
    assert client.beat() is None
    assert client.delayed(HEARTBEAT, 4).error_code == Code.ILLEGAL_SASL_STATE
    assert principals == []


def test_client_that_sends_api_versions_twice_before_authentication_is_disconnected(client: SaslClient) -> None:
    client.versions()
    assert client.versions() is None
    assert client.transport.closed


def test_request_size_before_authentication_is_limited(client: SaslClient) -> None:
    client.send(struct.pack(">i", 524_288) + b"\0\x12")
    assert not client.transport.closed
    other = SaslClient(client.broker, {})
    other.send(struct.pack(">i", 524_289) + b"\0\x12")
    assert other.transport.closed


def test_larger_requests_are_accepted_after_authentication(client: SaslClient) -> None:
    client.handshake()
    client.authenticate()
    client.send(struct.pack(">i", 524_289) + b"\0\x0c")
    assert not client.transport.closed


def test_declared_frame_size_before_authentication_allocates_little_memory(client: SaslClient) -> None:
    client.send(struct.pack(">i", 524_288) + bytes(100))
    assert len(client.connection.get_buffer(-1)) <= 1 << 12


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(100), b"\0\0\0\0"])
def test_client_that_sends_http_or_tls_to_a_sasl_listener_is_disconnected(client: SaslClient, raw: bytes) -> None:
    client.send(raw)
    assert client.transport.closed and client.transport.answers() == []


@pytest.mark.parametrize("cut", range(1, 20))
def test_client_that_sends_a_malformed_request_before_authentication_is_disconnected(client: SaslClient, cut: int) -> None:
    whole = request_frame(HANDSHAKE, 1, 1, "c", SaslHandshakeRequest(mechanism="PLAIN"))[4:]
    client.send(struct.pack(">i", len(whole) - cut) + whole[:-cut])
    client.scheduler.advance(DELAY_MS)
    assert client.transport.closed


def test_failed_and_successful_authentications_log_no_secret(connect: Callable[..., SaslClient]) -> None:
    with capture_logs() as lines:
        for token in (PLAIN, b"\0alice\0hush2", b"hush", b"\0hush\0", b"\xffhush"):
            client = connect()
            client.handshake()
            client.authenticate(token)
            client.scheduler.advance(DELAY_MS)
    assert len(lines) >= 4
    assert "hush" not in repr(lines)


@pytest.fixture
def sessions(connect: Callable[..., SaslClient]) -> Iterator[SaslClient]:
    client = connect(connections_max_reauth_ms=str(SESSION_MS))
    client.handshake()
    assert client.authenticate().session_lifetime_ms == SESSION_MS
    yield client


def test_client_that_sends_a_request_after_its_sasl_session_is_disconnected(sessions: SaslClient) -> None:
    sessions.scheduler.advance(SESSION_MS)
    assert sessions.beat().error_code == Code.NONE
    sessions.scheduler.advance(1)
    assert sessions.beat() is None
    assert sessions.transport.closed


def test_outcomes_of_authentications_are_counted_by_listener(connect: Callable[..., SaslClient], broker: Any) -> None:
    refused = connect()
    refused.handshake()
    refused.authenticate(b"\0alice\0wrong")
    refused.delayed(AUTHENTICATE, 2)
    expired, again = (connect(connections_max_reauth_ms=str(SESSION_MS)) for _ in range(2))
    for client in (expired, again):
        client.handshake()
        client.authenticate()
    again.scheduler.advance(SESSION_MS + 1)
    again.handshake()
    again.authenticate()
    again.scheduler.advance(2_000)
    again.handshake()
    again.authenticate(b"\0bob\0secret")
    again.delayed(AUTHENTICATE, 2)
    assert expired.beat() is None
    counted = {outcome: count for (listener, outcome), count in broker.counters.authentications.items() if "SASL_" in listener}
    assert counted == {
        "failed_authentication": 1,
        "successful_authentication": 2,
        "successful_reauthentication": 1,
        "failed_reauthentication": 1,
        "expired_connections_killed": 1,
    }
    connections = broker.connections
    assert (connections.opened_by_listener, connections.closed_by_listener) == ({"SASL_PLAINTEXT": 3}, {})
    refused.connection.connection_lost(None)
    assert connections.closed_by_listener == {"SASL_PLAINTEXT": 1}


def test_client_may_reauthenticate_after_its_sasl_session_ended(sessions: SaslClient) -> None:
    sessions.scheduler.advance(SESSION_MS + 1)
    assert sessions.handshake().error_code == Code.NONE
    assert sessions.authenticate().session_lifetime_ms == SESSION_MS
    assert sessions.beat().error_code == Code.NONE


def test_other_request_during_reauthentication_gets_illegal_sasl_state(sessions: SaslClient) -> None:
    sessions.handshake()
    assert sessions.beat() is None
    assert sessions.delayed(HEARTBEAT, 4).error_code == Code.ILLEGAL_SASL_STATE


def test_reauthentication_as_another_user_is_refused(sessions: SaslClient, principals: list[KafkaPrincipal]) -> None:
    sessions.handshake()
    assert sessions.authenticate(b"\0bob\0secret") is None
    message = sessions.delayed(AUTHENTICATE, 2).error_message
    assert message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert principals == []


@pytest.fixture
def contexts(principals: list[KafkaPrincipal], monkeypatch: pytest.MonkeyPatch) -> list[RequestContext]:
    """Return the contexts of the handled heartbeats."""
    seen: list[RequestContext] = []
    beat = lambda ports, request, context: seen.append(context) or HeartbeatResponse()  # noqa: E731
    found = ApiRegistry.declaration
    api_of_heartbeats = declared(HEARTBEAT, beat, lambda request, version, code: HeartbeatResponse(error_code=code))
    monkeypatch.setattr(
        ApiRegistry, "declaration", lambda registry, key: api_of_heartbeats if key == HEARTBEAT else found(registry, key)
    )
    return seen


def test_delegation_token_at_reauthentication_applies_to_the_next_requests(
    connect: Callable[..., SaslClient], broker: Any, contexts: list[RequestContext]
) -> None:
    """A client that has authenticated by a token may not manage tokens, even if its first authentication was by a password."""
    tokens = broker.cluster_state.tokens
    tokens.use_key("cluster secret")
    alice, now_ms = KafkaPrincipal("User", "alice"), broker.env.now_ms()
    tokens.by_id["t"] = StoredToken(
        token_id="t", owner=alice, requester=alice, renewers=(), issued_ms=now_ms, expires_ms=1 << 50, max_ms=1 << 50
    )
    password = base64.b64encode(tokens.hmac_of("t")).decode()
    client = connect(connections_max_reauth_ms=str(SESSION_MS))

    def authenticate(scram: ScramClient) -> None:
        client.handshake("SCRAM-SHA-256")
        first = client.authenticate(scram.first())
        assert client.authenticate(scram.final(bytes(first.auth_bytes))).error_code == Code.NONE
        client.beat()

    by_password = lambda: ScramClient("SCRAM-SHA-256", "alice", "hush")  # noqa: E731
    authenticate(by_password())
    client.scheduler.advance(2_000)
    authenticate(ScramClient("SCRAM-SHA-256", "t", password, extensions=",tokenauth=true"))
    client.scheduler.advance(2_000)
    authenticate(by_password())
    assert [context.is_by_token for context in contexts] == [False, True, False]
    assert {context.principal for context in contexts} == {alice}


def test_second_sasl_handshake_without_session_lifetime_gets_illegal_sasl_state(client: SaslClient) -> None:
    client.handshake()
    client.authenticate()
    assert client.handshake().error_code == Code.ILLEGAL_SASL_STATE
    assert client.authenticate().error_message == "SaslAuthenticate request received after successful authentication"
    assert not client.transport.closed


def test_api_keys_of_the_authenticator_equal_those_of_the_message_schemas() -> None:
    assert [api(key).name for key in (HANDSHAKE, VERSIONS, AUTHENTICATE)] == ["SaslHandshake", "ApiVersions", "SaslAuthenticate"]
