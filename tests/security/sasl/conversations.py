"""SASL clients for tests: the messages of a SCRAM client, and credentials."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import NamedTuple

from ottla.security.sasl.scram import HASHES


class Stored(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential(mechanism: str, password: str, iterations: int = 4_096) -> Stored:
    """Return the SCRAM credential that a server stores for a password."""
    digest, salt = HASHES[mechanism], b"salt of this user"
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return Stored(salt, hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest), iterations)


class ScramClient:
    """A SCRAM client. ``extensions`` follow the nonce of the first message."""

    def __init__(self, mechanism: str, user: str, password: str, *, header: str = "n,,", extensions: str = "") -> None:
        self.digest, self.password, self.header = HASHES[mechanism], password, header
        self.bare = f"n={user},r=client-nonce{extensions}"

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes, nonce: str | None = None) -> bytes:
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), salt, iterations)
        channel = base64.b64encode(self.header.encode()).decode()
        without_proof = f"c={channel},r={nonce or fields['r']}"
        self.signed = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        signature = hmac.digest(hashlib.new(self.digest, client_key).digest(), self.signed, self.digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self.digest), self.signed, self.digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
