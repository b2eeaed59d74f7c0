"""SASL exchanges: the examples of the RFCs, and brokers that violate the protocol."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.security.sasl import Conversation, SaslFailure, oauthbearer, plain, scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
"""The server's final message in the example of RFC 7677, section 3."""


def hold(conversation: Conversation, *answers: bytes) -> list[bytes]:
    """Run the exchange with these server messages, and return the client's messages. The exchange must end with the final server
    message."""
    said = [next(conversation)]
    for answer in answers[:-1]:
        said.append(conversation.send(answer))
    with pytest.raises(StopIteration):
        conversation.send(answers[-1])
    return said


def test_sasl_plain_sends_one_message() -> None:
    assert hold(plain("tim", "tanstaaftanstaaf"), b"") == [b"\0tim\0tanstaaftanstaaf"]


def test_scram_client_reproduces_the_example_conversation_of_its_rfc() -> None:
    assert hold(scram("SCRAM-SHA-256", "user", "pencil", NONCE), SERVER_FIRST, SERVER_FINAL) == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ]


def server(mechanism: str, password: str, conversation: Conversation, salt: bytes, iterations: int) -> None:
    """Act as a broker that verifies the client's proof as in RFC 5802 and answers with its own signature."""
    digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    bare = next(conversation).decode().removeprefix("n,,")
    nonce = bare.partition(",r=")[2] + "more"
    first = f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"
    without_proof, _, proof = conversation.send(first.encode()).decode().rpartition(",p=")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    signed = f"{bare},{first},{without_proof}".encode()
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), hmac.digest(stored, signed, digest), strict=True))
    assert hashlib.new(digest, key).digest() == stored
    signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    with pytest.raises(StopIteration):
        conversation.send(b"v=" + base64.b64encode(signature))


@settings(max_examples=20)
@given(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), st.text(min_size=1), st.text(), st.binary(min_size=1))
def test_scram_authenticates_every_password(mechanism: str, username: str, password: str, salt: bytes) -> None:
    server(mechanism, password, scram(mechanism, username, password, NONCE), salt, 4096)


def test_scram_escapes_special_characters_in_names() -> None:
    assert next(scram("SCRAM-SHA-512", "a=b,c", "x", "n")) == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ([b""], "first message is not a SCRAM message"),
        ([b"\xff"], "not a SCRAM message"),
        ([b"m=x," + SERVER_FIRST], "first message is not a SCRAM message"),
        ([b"e=other-error"], "first message is not a SCRAM message"),
        ([SERVER_FIRST.replace(b"r=rOpr", b"r=other")], "does not continue the client's"),
        ([b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"], "does not continue the client's"),
        ([SERVER_FIRST.replace(b"4096", b"4095")], "4095 iterations"),
        ([SERVER_FIRST.replace(b"4096", b"999999999")], "999999999 iterations"),
        ([SERVER_FIRST.replace(b"4096", b"9" * 5000)], "first message is not a SCRAM message"),
        ([SERVER_FIRST.replace(b"gQ==", b"gQ=")], "not a SCRAM message"),
        ([b"r=" + b"a" * (64 << 10)], "has 65538 bytes"),
        ([SERVER_FIRST, b"e=invalid-proof"], "'invalid-proof'"),
        ([SERVER_FIRST, b""], "last message is not a SCRAM message"),
        ([SERVER_FIRST, SERVER_FINAL.replace(b"6rri", b"7rri")], "did not prove that it knows the password"),
        ([SERVER_FIRST, b"v="], "last message is not a SCRAM message"),
        ([SERVER_FIRST, b"v=6"], "not a SCRAM message"),
    ],
)
def test_scram_protocol_violations_are_refused(answers: list[bytes], line: str) -> None:
    conversation = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(conversation)
    for answer in answers[:-1]:
        conversation.send(answer)
    with pytest.raises(SaslFailure, match=line) as failed:
        conversation.send(answers[-1])
    assert "pencil" not in str(failed.value)


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=2))
def test_random_sasl_server_messages_raise_only_expected_errors(answers: list[bytes]) -> None:
    conversation = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(conversation)
    with pytest.raises(SaslFailure):
        for answer in answers:
            conversation.send(answer)


def test_oauthbearer_client_reproduces_the_example_message_of_its_rfc() -> None:
    token = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
    said = hold(oauthbearer(token, {"host": "server.example.com", "port": "143"}), b"")
    assert said == [f"n,,\x01auth=Bearer {token}\x01host=server.example.com\x01port=143\x01\x01".encode()]


def test_refused_oauthbearer_token_is_reported_with_its_reason() -> None:
    conversation = oauthbearer("abc", {})
    next(conversation)
    assert conversation.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslFailure, match=r"refused the token \('invalid_token'\)"):
        conversation.send(b"")


@pytest.mark.parametrize("challenge", [b"\xff", b"[]", b"{}", b"1", b"[" * 10_000])
def test_oauthbearer_refusal_without_a_reason_is_reported(challenge: bytes) -> None:
    conversation = oauthbearer("abc", {})
    next(conversation)
    conversation.send(challenge)
    with pytest.raises(SaslFailure, match=r"refused the token$"):
        conversation.send(b"")


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("", {}), ("a b", {}), ("a\x01b", {}), ("abc", {"auth": "x"}), ("abc", {"a": "\x01"}), ("abc", {"1": ""})],
)
def test_invalid_oauthbearer_tokens_are_refused(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(SaslFailure):
        next(oauthbearer(token, extensions))


def test_sasl_plain_refuses_nul_characters() -> None:
    with pytest.raises(SaslFailure):
        next(plain("a\0b", "c"))
    conversation = plain("a", "b")
    next(conversation)
    with pytest.raises(SaslFailure):
        conversation.send(b"more")
