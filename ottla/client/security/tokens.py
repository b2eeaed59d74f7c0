"""Gets bearer tokens from the user's function, or from an OAuth endpoint with the client credentials grant (KIP-768)."""

from __future__ import annotations

import base64
import binascii
import importlib
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.client.security.client_config import ENDPOINT, FUNCTION, Sasl, Secret, Token, TokenEndpoint
from ottla.client.security.http_client import ask

RENEW_AT: Final = 0.8
"""Fraction of a token's lifetime after which the next token is requested (sasl.login.refresh.window.factor)."""


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


class EndpointTokens:
    """Caches tokens of endpoints for 80 % of their lifetime, because a client authenticates at each broker."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._kept: dict[TokenEndpoint, tuple[Token, float]] = {}
        self._lock = threading.Lock()

    def token(self, endpoint: TokenEndpoint) -> Token:
        with self._lock:
            now_s = self._now_s()
            token, until_s = self._kept.get(endpoint, (None, 0.0))
            if token is None or now_s >= until_s:
                token = _given_by(endpoint, now_s)
                life_s = 0.0 if token.expires_s is None else token.expires_s - now_s
                self._kept[endpoint] = token, now_s + life_s * RENEW_AT
            return token


_endpoint_tokens = EndpointTokens()


def token_of(sasl: Sasl) -> Token:
    """Return a token that is valid now. Raises `ClientError`."""
    if isinstance(sasl.token, TokenEndpoint):
        return _endpoint_tokens.token(sasl.token)
    option = sasl.prefix + FUNCTION
    function = imported(sasl.token, option) if isinstance(sasl.token, str) else sasl.token
    assert function is not None
    what = f"{option}: {_named(sasl.token)}"
    try:
        given = function()
    except Exception as error:
        # The error's text is not shown, because it may contain secrets of an HTTP request.
        raise ClientError(f"{what} returned no token: it raised {type(error).__name__}") from None
    token = _checked(given, what)
    if token.expires_s is not None and token.expires_s <= time.time():
        raise ClientError(f"{what} returned a token that expired {time.time() - token.expires_s:.0f} s ago")
    return token


def imported(path: str, option: str) -> Callable[[], Any]:
    """Import the function at ``module:function``. Raises `ClientError`."""
    module_name, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ClientError(f"{option}: {path} cannot be imported on this machine ({error})") from None
    if not callable(function):
        raise ClientError(f"{option}: {path} is not a function")
    return function  # type: ignore[no-any-return]


def _named(function: object) -> str:
    return function if isinstance(function, str) else getattr(function, "__qualname__", type(function).__name__)


def _checked(given: object, who: str) -> Token:
    match given:
        case Token():
            return given
        case str():
            return Token(Secret(given), expiry_of(given))
        case (str() as text, int() | float() as expires_s):
            return Token(Secret(text), float(expires_s))
    raise ClientError(f"{who} returns a {type(given).__name__}; it must return a token as text, or its text and its expiry time")


def expiry_of(token: str) -> float | None:
    """Return the expiry of a JSON Web Token, in seconds since 1970; None if the token has no expiry or another format."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None


def _given_by(endpoint: TokenEndpoint, now_s: float) -> Token:
    """Request a token (RFC 6749, 4.4). Client id and secret are sent in a header, as by Kafka's HttpJwtRetriever."""
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    pair = f"{endpoint.client_id}:{endpoint.client_secret.text}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    where = f"{endpoint.prefix}{ENDPOINT} {endpoint.url}"
    answer = ask(where, endpoint.url, urllib.parse.urlencode(form).encode(), headers)
    if answer.status != 200:
        raise ClientError(f"{where} returned {answer.status} {answer.reason}")
    try:
        said = msgspec.json.decode(answer.body, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ClientError(f"{where} returned no token: its response has no access_token") from None
    expires_s = expiry_of(said.access_token) if said.expires_in is None else now_s + said.expires_in
    return Token(Secret(said.access_token), expires_s)
