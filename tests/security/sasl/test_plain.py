"""PLAIN refuses clients as Kafka's PlainSaslServer does (PlainSaslServerTest)."""

from __future__ import annotations

import pytest

from ottla.security.sasl.exchange import SaslRefused
from ottla.security.sasl.plain import PlainExchange, PlainMechanism

MECHANISM = PlainMechanism({"alice": "secret", "zoë": "pässwort"})


def answer(token: bytes) -> PlainExchange:
    exchange = MECHANISM.exchange("nonce")
    assert exchange.respond(token, 0) == b""
    return exchange


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0zoë\0pässwort".encode(), "zoë"),
    ],
)
def test_sasl_plain_authenticates_a_user_with_the_right_password(token: bytes, user: str) -> None:
    exchange = answer(token)
    assert (exchange.is_complete, exchange.user) == (True, user)


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0bob\0secret", b"\0alice\0secretsecret", b"\0alice\0sec", b"\0\xff\0\xff"])
def test_sasl_plain_refuses_wrong_password_and_unknown_user_with_the_same_message(token: bytes) -> None:
    with pytest.raises(SaslRefused, match=r"^Authentication failed: Invalid username or password$"):
        answer(token)


def test_sasl_plain_with_another_authorization_id_is_refused() -> None:
    with pytest.raises(SaslRefused, match="Client requested an authorization id that is different from username"):
        answer(b"bob\0alice\0secret")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 10, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0", "Authentication failed: username not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
    ],
)
def test_incomplete_sasl_plain_token_is_refused(token: bytes, message: str) -> None:
    with pytest.raises(SaslRefused) as caught:
        answer(token)
    assert str(caught.value) == message
