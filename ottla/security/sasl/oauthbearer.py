"""The mechanism OAUTHBEARER (RFC 7628, KIP-255; OAuthBearerSaslServer): a token in one message.

The server answers an invalid token with a JSON text that has the reason. The client then sends one more byte, and the
authentication fails.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from ottla.security.sasl.exchange import SaslFailed, SaslRefused

OAUTHBEARER = "OAUTHBEARER"
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_CLIENT_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_END_OF_ERROR = b"\x01"
MAX_TOKEN_CHARACTERS = 64 << 10
"""Maximum length of a token. Tokens of identity providers have a few thousand characters."""


class BearerToken(msgspec.Struct, frozen=True, kw_only=True):
    """A valid bearer token (OAuthBearerToken)."""

    principal: str
    expires_ms: int


class TokenRefused(Exception):
    """A token is not valid. ``status`` and ``scope`` are sent to the client, the message is for the broker's log."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class TokenValidator(Protocol):
    """Decides whether a token is valid (OAuthBearerValidatorCallback)."""

    def validated(self, token: str, now_ms: int) -> BearerToken:
        """Return the content of a token. Raises `TokenRefused`."""
        ...


class OAuthBearerMechanism:
    """The mechanism OAUTHBEARER, with the validator of a listener's tokens."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator

    def exchange(self, nonce: str) -> OAuthBearerExchange:
        return OAuthBearerExchange(self._validator)


class OAuthBearerExchange:
    """One exchange of OAUTHBEARER."""

    __slots__ = ("_error", "_validator", "expires_ms", "is_complete", "is_token", "user")

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._error = ""
        self.is_complete, self.is_token, self.user = False, False, ""
        self.expires_ms: int | None = None

    def respond(self, token: bytes, now_ms: int) -> bytes:
        if token == _END_OF_ERROR and self._error:
            raise SaslRefused(self._error)
        self._error = ""
        authorization_id, text = _token_of(token.decode(errors="replace"))
        try:
            valid = self._validator.validated(text, now_ms)
        except TokenRefused as refused:
            scope = f', "scope":"{refused.scope}"' if refused.scope is not None else ""
            self._error = f'{{"status":"{refused.status}"{scope}}}'
            return self._error.encode()
        if authorization_id and authorization_id != valid.principal:
            raise SaslRefused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different from the"
                f" token's principal name ({valid.principal})"
            )
        self.is_complete, self.user, self.expires_ms = True, valid.principal, valid.expires_ms
        return b""


def _token_of(message: str) -> tuple[str, str]:
    """Return the authorization id, or an empty text, and the token of the client's message (OAuthBearerClientInitialResponse)."""
    found = _CLIENT_FIRST.fullmatch(message) if len(message) <= MAX_TOKEN_CHARACTERS else None
    if found is None:
        raise SaslFailed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01")[:-1])
    auth = pairs.get("auth")
    if auth is None:
        raise SaslFailed("Invalid OAUTHBEARER client first message: 'auth' not specified")
    bearer = _AUTH.fullmatch(auth)
    if bearer is None:
        raise SaslFailed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if bearer["scheme"].lower() != "bearer":
        raise SaslFailed("Invalid scheme in OAUTHBEARER client first message")
    return found["authzid"] or "", bearer["token"]
