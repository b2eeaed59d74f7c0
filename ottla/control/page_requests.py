"""Answers browsers' requests for pages, checks tokens and formats errors, for both servers that have pages.

The control API (`http_api`) serves the pages of its broker; `page_server` serves pages in a process without a broker.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.control.command import CommandRefused
from ottla.control.pages import EVENT_HEADERS, FILE_HEADERS, Pages, Reach, check_origin, query_of

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

SCHEME: Final = "Bearer "
MAX_ERROR_CHARS: Final = 1_000
"""Maximum length of an error message, in characters, because the message may quote a long path or parameter."""
_CUT: Final = " ... "
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
}


class PageRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Answers requests for ``pages``. ``check_access`` raises `CommandRefused` for a request without a token.

    ``reach`` creates the `Reach` object through which a page reads from the broker. Its argument is a function that returns whether
    the browser has closed the connection.
    """

    pages: Pages
    check_access: Callable[[WSGIEnvironment], None]
    reach: Callable[[Callable[[], bool]], Reach]

    def show(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return a page's file or its events. Files need no token, because they contain no data of the broker."""
        # The module is imported at the first request, so that the broker starts faster.
        from ottla.http.http_requests import HAS_LEFT

        method, path = str(environ["REQUEST_METHOD"]), path_of(environ)
        if method == "GET" and (file := self.pages.file(path)) is not None:
            start_response("200 OK", [("Content-Type", file.kind), ("Content-Length", str(len(file.content))), *FILE_HEADERS])
            return [file.content]
        self.check_access(environ)
        if method != "GET":
            raise CommandRefused(405, f"{path} does not accept {method}; use GET or POST")
        events = self.pages.events(path, query_of(str(environ.get("QUERY_STRING", ""))), self.reach(environ[HAS_LEFT]))
        # Pass a copy, because the server may add headers to the list.
        start_response("200 OK", list(EVENT_HEADERS))
        return events

    def command(self, environ: WSGIEnvironment) -> Any:
        """Carry out the POST request of a page. Raises `CommandRefused`."""
        from ottla.http.http_requests import HAS_LEFT

        check_origin(str(environ.get("HTTP_ORIGIN", "")), str(environ.get("HTTP_HOST", "")))
        self.check_access(environ)
        return self.pages.command(path_of(environ), environ["wsgi.input"].read(), self.reach(environ[HAS_LEFT]))


def has_token(environ: WSGIEnvironment, token: str) -> bool:
    return hmac.compare_digest(str(environ.get("HTTP_AUTHORIZATION", "")).encode(), f"{SCHEME}{token}".encode())


def check_token(environ: WSGIEnvironment, token: str) -> None:
    """Raise `CommandRefused` for a request without the token."""
    if not has_token(environ, token):
        raise CommandRefused(
            401,
            f"the token is missing or wrong; send the header Authorization: {SCHEME}TOKEN with the token printed at the start",
        )


def json_response(status: int, answer: Any, start_response: StartResponse) -> list[bytes]:
    body = msgspec.json.encode(answer) + b"\n"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(f"{status} {REASONS[status]}", headers)
    return [body]


def error_document(text: str) -> dict[str, str]:
    """Return the response for an error. A long text is shortened in the middle, because beginning and end say what to correct."""
    if len(text) > MAX_ERROR_CHARS:
        kept = (MAX_ERROR_CHARS - len(_CUT)) // 2
        text = f"{text[:kept]}{_CUT}{text[-kept:]}"
    return {"error": text}


def path_of(environ: WSGIEnvironment) -> str:
    """Decode the path of a request as UTF-8. WSGI has decoded the bytes as Latin-1 (PEP 3333)."""
    return str(environ["PATH_INFO"]).encode("latin-1").decode(errors="replace")
