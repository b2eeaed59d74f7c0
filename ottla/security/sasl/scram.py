"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84; ScramSaslServer and ScramMessages).

The client proves that it knows a password of which the server has only two derived keys. The server computes only two HMACs for
each client, because the client computes the iterations.

Unlike Kafka, which refuses an unknown user at its first message, this server sends an unknown user a salt as well, and refuses the
proof. So neither the messages nor their timing tell whether a user exists (RFC 5802, section 7).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.security.sasl.exchange import SaslFailed, SaslRefused

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hash function by mechanism (ScramMechanism)."""
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The mechanisms' numbers in metadata records and requests (org.apache.kafka.clients.admin.ScramMechanism)."""
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384
"""The iterations that Kafka allows for stored credentials (ScramMechanism)."""
_SALT_BITS, _DIGITS = 130, b"0123456789abcdefghijklmnopqrstuvwxyz"

_VALUE, _PRINTABLE = r"[\x01-\x2b\x2d-\x7f]+", r"[\x21-\x2b\x2d-\x7e]+"
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,(?:m={_VALUE},)?n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS})"
)
_CLIENT_FINAL = re.compile(rf"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS},p=(?P<proof>{_BASE64})")


class Credential(Protocol):
    """A stored credential of a user for one mechanism."""

    @property
    def salt(self) -> bytes: ...

    @property
    def stored_key(self) -> bytes: ...

    @property
    def server_key(self) -> bytes: ...

    @property
    def iterations(self) -> int: ...


class TokenCredential(NamedTuple):
    """The credential of a delegation token, which authenticates its owner (KIP-48)."""

    owner: str
    expires_ms: int
    credential: Credential


def salt_of(seed: bytes) -> bytes:
    """Derive a salt in the form of Kafka's: a random number of 130 bits in base 36 (ScramFormatter.secureRandomString).

    Salts of unknown users have the same form, so that a salt does not show whether a user exists.
    """
    number = int.from_bytes(hashlib.sha256(seed).digest()) >> (256 - _SALT_BITS)
    digits = bytearray()
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))


def token_credential(name: str, hmac_bytes: bytes, salt: bytes) -> StoredCredential:
    """The credential by which a client proves that it has the HMAC of a token; its password is the HMAC in base64. Deriving it
    takes about a thousand times as long as checking a proof."""
    digest, password = HASHES[name], base64.b64encode(hmac_bytes)
    salted = hashlib.pbkdf2_hmac(digest, password, salt, MIN_ITERATIONS)
    return StoredCredential(
        salt=salt,
        stored_key=hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest(),
        server_key=hmac.digest(salted, b"Server Key", digest),
        iterations=MIN_ITERATIONS,
    )


class StoredCredential(NamedTuple):
    """A `Credential` that this module has computed."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramMechanism:
    """One SCRAM mechanism. ``credential_of`` returns the credential of a user; None for an unknown user. ``token_of`` does the same
    for the id of a delegation token.

    ``secret`` returns bytes that clients do not know. Salts of unknown users are derived from these bytes, so that all brokers with
    the same bytes send an unknown user the same salt.
    """

    def __init__(
        self,
        name: str,
        credential_of: Callable[[str], Credential | None],
        secret: Callable[[], bytes],
        token_of: Callable[[str], TokenCredential | None] = lambda token_id: None,
    ) -> None:
        self.hash = HASHES[name]
        self.credential_of = credential_of
        self.token_of = token_of
        self._secret = secret

    def exchange(self, nonce: str) -> ScramExchange:
        return ScramExchange(self, nonce)

    def salt_of_unknown(self, user: str) -> bytes:
        return salt_of(hmac.digest(self._secret(), user.encode(), "sha256"))


class ScramExchange:
    """One exchange of SCRAM. The client sends its first message with the user name, then its last message with the proof."""

    __slots__ = (
        "_client_first_bare",
        "_credential",
        "_mechanism",
        "_nonce",
        "_server_first",
        "_user",
        "expires_ms",
        "is_complete",
        "is_token",
        "user",
    )

    def __init__(self, mechanism: ScramMechanism, nonce: str) -> None:
        self._mechanism, self._nonce = mechanism, nonce
        self._credential: Credential | None = None
        self._client_first_bare = self._server_first = self._user = ""
        self.is_complete, self.is_token, self.user = False, False, ""
        self.expires_ms: int | None = None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        message = token.decode(errors="replace")
        return self._first(message) if not self._server_first else self._final(message)

    def _first(self, message: str) -> bytes:
        """The server's first message: nonce, salt and number of iterations."""
        found = _CLIENT_FIRST.fullmatch(message)
        if found is None:
            raise SaslFailed("Invalid SCRAM client first message format")
        extensions = dict(pair.split("=", 1) for pair in found["extensions"].split(",")[1:])
        user = found["name"].replace("=2C", ",").replace("=3D", "=")
        self.is_token = extensions.get("tokenauth", "").lower() == "true"
        token = self._mechanism.token_of(user) if self.is_token else None
        if self.is_token and token is None:
            raise SaslFailed(f"Token Authentication failed: Invalid tokenId : {user}")
        credential = self._mechanism.credential_of(user) if token is None else token.credential
        owner, self.expires_ms = (user, None) if token is None else (token.owner, token.expires_ms)
        if credential is not None and credential.iterations < MIN_ITERATIONS:
            raise SaslFailed(f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS}")
        if found["authzid"] and found["authzid"] != user:
            raise SaslRefused("Authentication failed: Client requested an authorization id that is different from username")
        salt = self._mechanism.salt_of_unknown(user) if credential is None else credential.salt
        iterations = MIN_ITERATIONS if credential is None else credential.iterations
        # As in Kafka, the signed message has the extensions, but not the reserved "m=" attribute.
        self._client_first_bare = f"n={found['name']},r={found['nonce']}{found['extensions']}"
        self._nonce = found["nonce"] + self._nonce
        self._server_first = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        self._user, self._credential = owner, credential
        return self._server_first.encode()

    def _final(self, message: str) -> bytes:
        """The server's last message: the proof that the server knows the credential."""
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None:
            raise SaslFailed("Invalid SCRAM client final message format")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise SaslFailed("Invalid client nonce in the final client message.")
        digest, credential = self._mechanism.hash, self._credential
        size = hashlib.new(digest).digest_size
        # The proof of an unknown user is checked against a key that no proof can match.
        stored_key = bytes(size) if credential is None else credential.stored_key
        signed = f"{self._client_first_bare},{self._server_first},c={found['channel']},r={found['nonce']}".encode()
        signature, proof = hmac.digest(stored_key, signed, digest), _proof(found["proof"], size)
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
        is_proven = hmac.compare_digest(hashlib.new(digest, client_key).digest(), stored_key)
        if not is_proven or credential is None:
            raise SaslFailed("Invalid client credentials")
        self.is_complete, self.user = True, self._user
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, digest))


def _proof(text: str, size: int) -> bytes:
    try:
        proof = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslFailed("Invalid SCRAM client final message format") from None
    if len(proof) != size:
        raise SaslFailed("Invalid client credentials")
    return proof
