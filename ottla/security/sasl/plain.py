"""The mechanism PLAIN (RFC 4616; PlainSaslServer and PlainServerCallbackHandler): a user name and a password in one token."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.security.sasl.exchange import SaslRefused

PLAIN = "PLAIN"
_NO_PASSWORD = b"\0"
"""Compared with the password that an unknown user sends. No client can send it, because NUL separates the parts of a token."""


class PlainMechanism:
    """The mechanism PLAIN, with the users of a ``sasl.jaas.config``."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {name: password.encode() for name, password in passwords.items()}

    def exchange(self, nonce: str) -> PlainExchange:
        return PlainExchange(self._passwords)


class PlainExchange:
    """One exchange of PLAIN, which has a single token."""

    __slots__ = ("_passwords", "expires_ms", "is_complete", "is_token", "user")

    def __init__(self, passwords: Mapping[str, bytes]) -> None:
        self._passwords = passwords
        self.is_complete, self.is_token, self.user = False, False, ""
        self.expires_ms: int | None = None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        # As in Kafka, malformed UTF-8 becomes replacement characters, and the error message counts at most four parts of the token.
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified")
        # Compare also for an unknown user, so that the response time does not show whether a user exists.
        known = self._passwords.get(user, _NO_PASSWORD)
        if not hmac.compare_digest(known, password.encode()):
            raise SaslRefused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslRefused("Authentication failed: Client requested an authorization id that is different from username")
        self.is_complete, self.user = True, user
        return b""
