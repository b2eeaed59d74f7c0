"""SCRAM authenticates by proofs, and treats unknown users like wrong passwords (RFC 5802 and 7677, ScramSaslServerTest)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest

from ottla.security.sasl.exchange import SaslFailed, SaslRefused
from ottla.security.sasl.scram import HASHES, MIN_ITERATIONS, ScramMechanism, salt_of
from tests.security.sasl.conversations import ScramClient, Stored, credential

SHA_256 = "SCRAM-SHA-256"


def mechanism(name: str = SHA_256, **users: Stored) -> ScramMechanism:
    return ScramMechanism(name, users.get, lambda: b"a secret of the cluster")


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("iterations", [4_096, 16_384])
def test_scram_authenticates_a_user_with_the_right_password(name: str, iterations: int) -> None:
    exchange = mechanism(name, alice=credential(name, "secret", iterations)).exchange("server-nonce")
    client = ScramClient(name, "alice", "secret")
    first = exchange.respond(client.first(), 0)
    assert first.startswith(b"r=client-nonceserver-nonce,s=") and first.endswith(b",i=%d" % iterations)
    assert not exchange.is_complete and not exchange.user
    final = exchange.respond(client.final(first), 0)
    assert final == b"v=" + base64.b64encode(client.server_signature)
    assert (exchange.is_complete, exchange.user) == (True, "alice")


def test_scram_example_of_rfc_7677_is_accepted() -> None:
    stored = Stored(
        base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
        *credential_keys("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")),
        4_096,
    )
    exchange = mechanism(user=stored).exchange("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0)
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.respond(final, 0) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential_keys(password: str, salt: bytes) -> tuple[bytes, bytes]:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 4_096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256")


@pytest.mark.parametrize(("written", "user"), [("a=2Cb", "a,b"), ("a=3Db", "a=b"), ("a=3D2Cb", "a=2Cb")])
def test_scram_reads_escaped_user_names(written: str, user: str) -> None:
    exchange = mechanism(**{user: credential(SHA_256, "secret")}).exchange("s")
    client = ScramClient(SHA_256, written, "secret")
    exchange.respond(client.final(exchange.respond(client.first(), 0)), 0)
    assert exchange.user == user


@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_scram_refuses_unknown_user_and_wrong_password_at_the_same_message(user: str) -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    client = ScramClient(SHA_256, user, "wrong")
    first = exchange.respond(client.first(), 0)
    with pytest.raises(SaslFailed, match=r"^Invalid client credentials$"):
        exchange.respond(client.final(first), 0)
    assert not exchange.is_complete and not exchange.user


def test_scram_gives_an_unknown_user_always_the_same_salt() -> None:
    firsts = {mechanism().exchange("s").respond(ScramClient(SHA_256, "mallory", "x").first(), 0) for _ in range(3)}
    other = mechanism().exchange("s").respond(ScramClient(SHA_256, "trudy", "x").first(), 0)
    assert len(firsts) == 1 and other not in firsts
    assert all(first.endswith(b",i=%d" % MIN_ITERATIONS) for first in firsts)


def test_scram_salt_of_an_unknown_user_depends_on_the_secret_of_the_cluster() -> None:
    other = ScramMechanism(SHA_256, lambda user: None, lambda: b"another secret")
    assert mechanism().salt_of_unknown("mallory") != other.salt_of_unknown("mallory")


def test_scram_salts_have_the_format_of_kafkas_salts() -> None:
    """Kafka's admin clients send a random number of 130 bits in base 36. Another format would reveal unknown users."""
    salts = {salt_of(bytes([seed])) for seed in range(256)} | {mechanism().salt_of_unknown(f"user {n}") for n in range(256)}
    assert len(salts) == 512
    assert all(int(salt, 36) < 1 << 130 and re.fullmatch(rb"[0-9a-z]+", salt) for salt in salts)
    assert {len(salt) for salt in salts} >= {25, 26}


def test_scram_refuses_an_unknown_user_with_a_proof_for_a_key_of_zeros() -> None:
    """The broker compares the proof of an unknown user with a stored key of zeros, for which no valid proof is known."""
    exchange = mechanism().exchange("s")
    exchange.respond(ScramClient(SHA_256, "mallory", "x").first(), 0)
    with pytest.raises(SaslFailed):
        exchange.respond(b"c=biws,r=client-nonces,p=" + base64.b64encode(bytes(32)), 0)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_scram_proof_of_another_length_is_refused(size: int) -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    exchange.respond(ScramClient(SHA_256, "alice", "secret").first(), 0)
    with pytest.raises(SaslFailed):
        exchange.respond(b"c=biws,r=client-nonces,p=" + base64.b64encode(bytes(size)), 0)


def test_scram_nonce_of_another_exchange_is_refused() -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    client = ScramClient(SHA_256, "alice", "secret")
    first = exchange.respond(client.first(), 0)
    with pytest.raises(SaslFailed, match="Invalid client nonce"):
        exchange.respond(client.final(first, nonce="client-nonceother"), 0)


def test_scram_credential_with_too_few_iterations_is_refused() -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret", 4_095)).exchange("s")
    with pytest.raises(SaslFailed, match="4095 is less than the minimum 4096"):
        exchange.respond(ScramClient(SHA_256, "alice", "secret").first(), 0)


def test_scram_with_another_authorization_id_is_refused() -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    with pytest.raises(SaslRefused, match="authorization id that is different from username"):
        exchange.respond(ScramClient(SHA_256, "alice", "secret", header="n,a=bob,").first(), 0)


def test_scram_extensions_are_signed_and_ignored() -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    client = ScramClient(SHA_256, "alice", "secret", extensions=",team=red")
    exchange.respond(client.final(exchange.respond(client.first(), 0)), 0)
    assert exchange.is_complete


def test_scram_with_a_delegation_token_is_refused_by_a_broker_without_tokens() -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    with pytest.raises(SaslFailed, match="Token Authentication failed"):
        exchange.respond(ScramClient(SHA_256, "alice", "secret", extensions=",tokenauth=true").first(), 0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"p=tls,,n=alice,r=x",
        b"y,,n=alice,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=a,r=x\0",
        b"\xff",
    ],
)
def test_malformed_first_scram_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslFailed, match="client first message"):
        mechanism().exchange("s").respond(message, 0)


@pytest.mark.parametrize("message", [b"", b"c=biws", b"c=biws,r=client-nonces", b"c=!,r=client-nonces,p=", b"\0" * 100])
def test_malformed_final_scram_message_is_refused(message: bytes) -> None:
    exchange = mechanism(alice=credential(SHA_256, "secret")).exchange("s")
    exchange.respond(ScramClient(SHA_256, "alice", "secret").first(), 0)
    with pytest.raises(SaslFailed, match="client final message"):
        exchange.respond(message, 0)


def test_stored_number_of_iterations_is_sent_to_the_client_and_costs_the_server_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """AlterUserScramCredentials refuses such a number, but a metadata log may have it. Only the client computes the iterations."""
    stored = credential(SHA_256, "secret")._replace(iterations=2**31 - 1)
    exchange, client = mechanism(alice=stored).exchange("s"), ScramClient(SHA_256, "alice", "secret")
    computed: list[int] = []
    derive = hashlib.pbkdf2_hmac

    def derived(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        computed.append(iterations)
        return derive(digest, password, salt, MIN_ITERATIONS)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", derived)
    first = exchange.respond(client.first(), 0)
    assert first.endswith(b",i=2147483647") and computed == []
    exchange.respond(client.final(first), 0)
    assert (exchange.is_complete, computed) == (True, [2**31 - 1])


@pytest.mark.parametrize("name", HASHES)
def test_scram_computes_as_much_for_an_unknown_user_as_for_a_wrong_password(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test measures no time. It counts hashes for the second message and compares the lengths of messages. Only the first
    message of an unknown user needs an additional HMAC, for the salt."""

    def attempt(user: str) -> tuple[list[int], int, int]:
        stored = Stored(mechanism(name).salt_of_unknown("mally"), *credential(name, "secret")[1:])
        exchange = mechanism(name, alice=stored).exchange("server")
        client = ScramClient(name, user, "wrong")
        first = exchange.respond(client.first(), 0)
        final = client.final(first)
        hashed: list[int] = []
        digest = hmac.digest
        with monkeypatch.context() as patched:
            patched.setattr(hmac, "digest", lambda key, text, kind: (hashed.append(len(text)), digest(key, text, kind))[1])
            with pytest.raises(SaslFailed, match=r"^Invalid client credentials$"):
                exchange.respond(final, 0)
        return hashed, len(first), len(final)

    assert attempt("alice") == attempt("mally")
