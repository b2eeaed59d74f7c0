"""SASL exchanges as generators of bytes: PLAIN, SCRAM and OAUTHBEARER, without socket and clock.

A generator yields the client's messages, receives the broker's messages, and ends when the exchange has succeeded.

SCRAM is implemented here because libraries apply SASLprep to a password, while Kafka does not (ScramFormatter.normalize).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Generator, Mapping
from typing import Final

import msgspec

Conversation = Generator[bytes, bytes, None]

MIN_ITERATIONS: Final = 4_096
"""Minimum number of SCRAM iterations, as in Kafka's client. With fewer iterations a fake broker could guess the password from the
client's proof."""
MAX_ITERATIONS: Final = 1_000_000
"""Maximum number of SCRAM iterations, which take about a second. Kafka creates credentials with at most 16,384."""
MAX_CHALLENGE_BYTES: Final = 64 << 10
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SERVER_FIRST: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,8})(?:,.*)?", re.DOTALL)
_SERVER_FINAL: Final = re.compile(r"(?:e=([^,]*)|v=([A-Za-z0-9+/=]+))(?:,.*)?", re.DOTALL)
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""The characters of a token (RFC 6750, 2.1)."""
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x20-\x7e\t\r\n]*")


class SaslFailure(Exception):
    """A failed exchange. The message contains no secret."""


def plain(username: str, password: str) -> Conversation:
    """The PLAIN exchange (RFC 4616)."""
    if "\0" in username or "\0" in password:
        raise SaslFailure("a user name or password contains a NUL, which PLAIN does not allow")
    challenge = yield f"\0{username}\0{password}".encode()
    if challenge:
        raise SaslFailure("the broker sent a second challenge, which PLAIN does not have")


def scram(mechanism: str, username: str, password: str, nonce: str, *, is_delegated: bool = False) -> Conversation:
    """The SCRAM exchange (RFC 5802 and 7677), without channel binding, which Kafka does not support. Fails if the broker does not
    prove that it knows the password. With ``is_delegated`` they are a delegation token's id and HMAC (KIP-48)."""
    digest = _HASHES[mechanism]
    bare = f"n={_escaped(username)},r={nonce}{',tokenauth=true' if is_delegated else ''}"
    first = _text((yield f"n,,{bare}".encode()))
    said = _SERVER_FIRST.fullmatch(first)
    if said is None:
        raise SaslFailure("the broker's first message is not a SCRAM message")
    if not said[1].startswith(nonce) or said[1] == nonce:
        raise SaslFailure("the broker's nonce does not continue the client's nonce")
    iterations = int(said[3])
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise SaslFailure(f"the broker requests {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), _decoded(said[2]), iterations)
    without_proof = f"c=biws,r={said[1]}"
    signed = f"{bare},{first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = _text((yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()))
    ended = _SERVER_FINAL.fullmatch(final)
    if ended is None:
        raise SaslFailure("the broker's last message is not a SCRAM message")
    if ended[1] is not None:
        raise SaslFailure(f"the broker returned the error {ended[1][:100]!r}")
    server_key = hmac.digest(salted, b"Server Key", digest)
    if not hmac.compare_digest(hmac.digest(server_key, signed, digest), _decoded(ended[2])):
        raise SaslFailure("the broker did not prove that it knows the password; it may be another server")


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Conversation:
    """The OAUTHBEARER exchange (RFC 7628, KIP-342). A broker that rejects the token sends the reason, and the client must respond
    with one byte."""
    if not _TOKEN.fullmatch(token):
        raise SaslFailure("the token is invalid: it has characters that a bearer token cannot have")
    pairs = [("auth", f"Bearer {token}"), *extensions.items()]
    for name, value in extensions.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise SaslFailure("an extension of the token has a name or value that OAUTHBEARER does not allow")
    challenge = yield ("n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs) + "\x01").encode()
    if challenge:
        yield b"\x01"
        raise SaslFailure(f"the broker refused the token{_status(challenge)}")


class _Refusal(msgspec.Struct):
    """The broker's reason for rejecting a token (RFC 7628, 3.2.2)."""

    status: str = ""


def _status(challenge: bytes) -> str:
    try:
        status = msgspec.json.decode(challenge, type=_Refusal).status
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return f" ({status[:100]!r})" if status else ""


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _text(challenge: bytes) -> str:
    if len(challenge) > MAX_CHALLENGE_BYTES:
        raise SaslFailure(f"the broker's message has {len(challenge)} bytes; at most {MAX_CHALLENGE_BYTES} are allowed")
    try:
        return challenge.decode()
    except UnicodeDecodeError:
        raise SaslFailure("the broker's message is not a SCRAM message") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslFailure("the broker's message is not a SCRAM message") from None
