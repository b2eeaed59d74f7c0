"""The HTTP client for schema registries and token endpoints. Requests contain a secret in a header, so the client follows no
redirect, which could send the secret to another host. The size and time of a response are limited, and an error is one line without
secrets.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.client.security.http_deadline import ExchangeDeadline

TIMEOUT_S: Final = 10.0
"""Timeout, in seconds, for a whole exchange. Longer than the schemas of one request wait in ottla's schema registry
(`compilations.WAIT_S`)."""
MAX_ANSWER_BYTES: Final = 4 << 20
MAX_ERROR_BYTES: Final = 1_000
_PIECE_BYTES: Final = 64 << 10


class HttpResponse(msgspec.Struct, frozen=True):
    """A response. ``reason`` is HTTP's text for the status. The ``body`` of an error has at most `MAX_ERROR_BYTES`."""

    status: int
    reason: str
    body: bytes


def check_url(what: str, url: str, instead: str) -> None:
    """Raise `ClientError` for a URL that is not HTTP or contains a password, because errors show URLs. ``what`` is the URL's name
    in the error. ``instead`` says how to give the password."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        has_user = "@" in parts.netloc
    except ValueError:
        is_url, has_user = False, "@" in url
    if has_user:
        raise ClientError(f"{what} contains a user or a password, which logs would show: give it without them, and {instead}")
    if not is_url or any(ord(c) <= 32 or ord(c) >= 127 for c in url):
        raise ClientError(f"{what} must begin with https:// or http:// and a host, not as {url[:100]!r}")


class _Staying(urllib.request.HTTPRedirectHandler):
    """Returns redirects as responses instead of following them."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask(
    who: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    method: str | None = None,
    timeout_s: float = TIMEOUT_S,
    now_s: Callable[[], float] = time.monotonic,
) -> HttpResponse:
    """Send a request: by default a POST if there is a body, else a GET. Raises `ClientError`, also for a redirect; error messages
    begin with ``who``."""
    request = urllib.request.Request(url, body, dict(headers), method=method)
    try:
        with ExchangeDeadline(timeout_s, now_s).opener(_Staying).open(request, timeout=timeout_s) as answer:
            read = _read(answer, MAX_ANSWER_BYTES)
            if len(read) > MAX_ANSWER_BYTES:
                raise ClientError(f"{who} returned more than {MAX_ANSWER_BYTES:,} bytes")
            return HttpResponse(answer.status, str(answer.reason), read)
    except urllib.error.HTTPError as error:
        with error:
            if 300 <= error.code < 400:
                where = urllib.parse.urlsplit(error.headers.get("Location") or "").hostname or "another path"
                raise ClientError(f"{who} redirects to {where}, which is not followed: give that URL") from None
            return HttpResponse(error.code, str(error.reason), _said_by(error))
    except (OSError, http.client.HTTPException) as error:
        said = " ".join(str(getattr(error, "reason", "") or error or type(error).__name__).split())
        raise ClientError(f"{who} does not answer ({said})") from None


def _said_by(error: IO[bytes]) -> bytes:
    try:
        return _read(error, MAX_ERROR_BYTES)[:MAX_ERROR_BYTES]
    except (OSError, http.client.HTTPException):
        return b""


def _read(answer: IO[bytes], limit: int) -> bytes:
    """Read at most one byte more than ``limit``. Raises OSError."""
    pieces: list[bytes] = []
    left = limit + 1
    while left and (piece := answer.read(min(left, _PIECE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    if left and getattr(answer, "length", None):
        raise ConnectionError("the response is incomplete")
    return b"".join(pieces)
