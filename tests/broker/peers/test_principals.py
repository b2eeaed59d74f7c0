"""The principal of a client in an envelope has the bytes that Kafka's brokers send."""

from __future__ import annotations

import pytest

from ottla.broker.peers.principals import principal_bytes, principal_of
from ottla.protocol.errors import DecodeError
from ottla.security.principal import ANONYMOUS, KafkaPrincipal


def test_forwarded_principal_is_encoded_like_in_kafka() -> None:
    assert principal_bytes(ANONYMOUS) == b"\0\0" + b"\5User" + b"\12ANONYMOUS" + b"\0" + b"\0"


@pytest.mark.parametrize("principal", [ANONYMOUS, KafkaPrincipal("User", "CN=é,OU=x"), KafkaPrincipal("", "")])
def test_encoded_principal_is_decoded_to_the_same_principal(principal: KafkaPrincipal) -> None:
    assert principal_of(principal_bytes(principal)) == principal


@pytest.mark.parametrize("raw", [b"", b"p", b"\0\1" + principal_bytes(ANONYMOUS)[2:], principal_bytes(ANONYMOUS)[:9]])
def test_malformed_encoded_principal_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        principal_of(raw)


def test_encoded_principal_says_whether_a_delegation_token_authenticated_it() -> None:
    raw = principal_bytes(KafkaPrincipal("User", "alice"), is_by_token=True)
    assert raw[-2:] == b"\1\0"
    assert principal_of(raw) == KafkaPrincipal("User", "alice")
