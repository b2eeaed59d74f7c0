"""The states of an authentication, its errors and its sessions equal those of Kafka's SaslServerAuthenticator."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import Code
from ottla.security.principal import KafkaPrincipal
from ottla.security.sasl.plain import PlainExchange, PlainMechanism
from ottla.security.sasl.scram import ScramMechanism
from ottla.security.sasl.server import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, SaslServer, SaslTerms
from ottla.security.sasl.states import TRANSITIONS, Event, State, next_state
from tests.security.sasl.conversations import ScramClient, credential

ALICE = KafkaPrincipal("User", "alice")
TOKEN = b"\0alice\0secret"
PRODUCE = 0


def server(max_session_ms: int = 0) -> SaslServer:
    stored = {"alice": credential("SCRAM-SHA-256", "secret")}
    mechanisms: dict[str, Any] = {
        "PLAIN": PlainMechanism({"alice": "secret", "bob": "hush"}),
        "SCRAM-SHA-256": ScramMechanism("SCRAM-SHA-256", stored.get, lambda: b"secret"),
    }
    return SaslServer(SaslTerms(mechanisms=mechanisms, max_session_ms=dict.fromkeys(mechanisms, max_session_ms)))


def authenticated(max_session_ms: int = 0) -> SaslServer:
    made = server(max_session_ms)
    assert made.handshake("PLAIN", 1, "nonce") == Code.NONE
    assert made.token(TOKEN, 0, 1_000).code == Code.NONE
    return made


def test_sasl_client_is_authenticated_after_its_last_token() -> None:
    made = server()
    assert (made.state, made.principal.name) == (State.INITIAL_REQUEST, "ANONYMOUS")
    made.versions_answered(Code.NONE)
    assert made.handshake("SCRAM-SHA-256", 1, "nonce") == Code.NONE
    assert made.state is State.AUTHENTICATE and made.has_headers
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    challenge = made.token(client.first(), 0, 0)
    assert made.state is State.AUTHENTICATE and made.principal.name == "ANONYMOUS"
    assert made.token(client.final(challenge.token), 0, 0).code == Code.NONE
    assert (made.state, made.principal, made.ends_ms) == (State.COMPLETE, ALICE, None)


def test_sasl_tokens_after_handshake_v0_are_expected_without_request_headers() -> None:
    made = server()
    made.handshake("PLAIN", 0, "nonce")
    assert not made.has_headers


def test_unknown_sasl_mechanism_fails_and_returns_the_enabled_mechanisms() -> None:
    made = server()
    assert made.handshake("GSSAPI", 1, "nonce") == Code.UNSUPPORTED_SASL_MECHANISM
    assert made.state is State.FAILED
    assert made.mechanisms == ["PLAIN", "SCRAM-SHA-256"]


@pytest.mark.parametrize(
    ("mechanism", "token", "message"),
    [
        ("PLAIN", b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("PLAIN", b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            "SCRAM-SHA-256",
            b"n",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
    ],
)
def test_refused_sasl_client_gets_kafkas_message(mechanism: str, token: bytes, message: str) -> None:
    made = server()
    made.handshake(mechanism, 1, "nonce")
    answer = made.token(token, 0, 0)
    assert (answer.code, answer.message, answer.token) == (Code.SASL_AUTHENTICATION_FAILED, message, b"")
    assert made.state is State.FAILED and made.principal.name == "ANONYMOUS"


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        (State.INITIAL_REQUEST, {API_VERSIONS, SASL_HANDSHAKE}),
        (State.HANDSHAKE_OR_VERSIONS_REQUEST, {API_VERSIONS, SASL_HANDSHAKE}),
        (State.HANDSHAKE_REQUEST, {SASL_HANDSHAKE}),
        (State.AUTHENTICATE, set(range(95))),
        (State.REAUTH_PROCESS_HANDSHAKE, {SASL_HANDSHAKE}),
        (State.FAILED, set()),
    ],
)
def test_requests_decoded_before_authentication_depend_on_the_sasl_state(state: State, keys: set[int]) -> None:
    made = server()
    made.state = state
    assert {key for key in range(95) if made.expects(key)} == keys


def test_sasl_event_missing_in_the_transition_table_fails() -> None:
    assert set(TRANSITIONS) == set(State)
    for state in State:
        for event in Event:
            assert next_state(state, event) is TRANSITIONS[state].get(event, State.FAILED)
    assert {event for row in TRANSITIONS.values() for event in row} == set(Event) - {Event.UNSUPPORTED_MECHANISM, Event.REFUSED}


def test_sasl_session_lasts_for_connections_max_reauth_ms() -> None:
    made = server(3_600_000)
    made.handshake("PLAIN", 1, "nonce")
    assert made.token(TOKEN, 0, 5_000).session_lifetime_ms == 3_600_000
    assert made.ends_ms == 3_605_000
    assert not made.has_ended(3_605_000) and made.has_ended(3_605_001)


@pytest.mark.parametrize(("max_session_ms", "lifetime_ms"), [(0, 600), (500, 500), (700, 600)])
def test_sasl_session_ends_when_the_credential_expires(
    max_session_ms: int, lifetime_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchange(self: PlainMechanism, nonce: str) -> PlainExchange:
        made = PlainExchange({"alice": b"secret"})
        made.expires_ms = 10_600
        return made

    monkeypatch.setattr(PlainMechanism, "exchange", exchange)
    made = server(max_session_ms)
    made.handshake("PLAIN", 1, "nonce")
    assert made.token(TOKEN, 10_000, 50).session_lifetime_ms == lifetime_ms
    assert made.ends_ms == 50 + lifetime_ms


def test_sasl_client_reauthenticates_as_the_same_user() -> None:
    made = authenticated(3_600_000)
    assert made.reauthenticate(2_000)
    assert made.handshake("PLAIN", 1, "nonce") == Code.NONE
    assert made.token(TOKEN, 0, 3_000).session_lifetime_ms == 3_600_000
    assert (made.state, made.principal, made.ends_ms) == (State.COMPLETE, ALICE, 3_603_000)


def test_sasl_reauthentication_as_another_user_is_refused() -> None:
    made = authenticated(3_600_000)
    made.reauthenticate(2_000)
    made.handshake("PLAIN", 1, "nonce")
    answer = made.token(b"\0bob\0hush", 0, 3_000)
    assert answer.message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert made.state is State.FAILED and made.principal == ALICE


def test_sasl_reauthentication_by_another_mechanism_disconnects_at_the_next_request() -> None:
    made = authenticated(3_600_000)
    made.reauthenticate(2_000)
    assert made.handshake("SCRAM-SHA-256", 1, "nonce") == Code.NONE
    assert made.state is State.REAUTH_BAD_MECHANISM
    assert not any(made.expects(key) for key in range(95))


def test_error_of_a_failed_sasl_reauthentication_names_reauthentication() -> None:
    made = server(3_600_000)
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    made.handshake("SCRAM-SHA-256", 1, "nonce")
    made.token(client.final(made.token(client.first(), 0, 0).token), 0, 0)
    made.reauthenticate(2_000)
    made.handshake("SCRAM-SHA-256", 1, "nonce")
    message = made.token(b"", 0, 3_000).message
    assert message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_unlimited_sasl_session_refuses_reauthentication() -> None:
    made = authenticated()
    assert not made.reauthenticate(2_000)
    assert made.state is State.COMPLETE


def test_sasl_reauthentication_within_a_second_of_the_previous_one_is_not_begun() -> None:
    made = authenticated(3_600_000)
    assert made.reauthenticate(2_000)
    made.handshake("PLAIN", 1, "nonce")
    made.token(TOKEN, 0, 2_100)
    assert not made.reauthenticate(2_999)
    assert made.reauthenticate(3_000)


def test_sasl_authenticate_and_produce_requests_are_refused_before_the_handshake() -> None:
    assert not server().expects(SASL_AUTHENTICATE) and not server().expects(PRODUCE)
