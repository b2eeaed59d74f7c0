"""Answers one HTTP request of a client: parsed by h11, answered by a WSGI app, within the limits of `http_server`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from io import BytesIO
from selectors import EVENT_READ, DefaultSelector
from socket import MSG_PEEK, SHUT_WR, socket
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import h11
import msgspec
import structlog

from ottla.http.host_header import HostRefused

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

IDLE_TIMEOUT_S: Final = 5.0
"""Time in s that a client may stall while it sends a request or reads the response."""
REQUEST_TIMEOUT_S: Final = 10.0
"""Time in s that a client may take to send its whole request, because it occupies one of few connections."""
MAX_HEADER_BYTES: Final = 1 << 16
"""Maximum size of the request line and all headers in bytes."""
MAX_BODY_BYTES: Final = 1 << 20
MAX_DISCARDED_BYTES: Final = 16 << 20
"""Maximum number of bytes of a refused request that are read and dropped. Then the connection is closed."""
PIECE_BYTES: Final = 1 << 13
"""Size in bytes of the pieces in which a request is read. Headers may exceed `MAX_HEADER_BYTES` by one piece."""
MAX_TOLD: Final = 200
"""Maximum length of an error text in characters, because h11's texts quote the request."""
HAS_LEFT: Final = "ottla.has_left"
"""Key of a function in a request's WSGI environment that returns whether the client has closed the connection."""

log = structlog.get_logger("http")


def has_left(connection: socket) -> bool:
    """Whether the client has closed a connection. False if unread data has arrived."""
    try:
        with DefaultSelector() as selector:
            selector.register(connection, EVENT_READ)
            return bool(selector.select(0)) and not connection.recv(1, MSG_PEEK)
    except (OSError, ValueError):
        return True


class _Disconnected(Exception):
    """The client has closed the connection, or has stalled for too long."""


class HttpRefused(Exception):
    """A refused request, which does not reach the app. The text is one line for a person."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


class HttpExchange:
    """One request of a client and the app's response, created for each connection. The caller closes ``connection`` after `run`.

    If the app raises an exception, it is logged, the response is 500, and ``on_bug`` is called. ``check`` is called before the app,
    and raises `HostRefused` or `HttpRefused` for a request that the app must not get.
    """

    def __init__(
        self,
        connection: socket,
        app: WSGIApplication,
        on_bug: Callable[[], None],
        error_fields: Callable[[int, str], dict[str, object]],
        check: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._connection = connection
        self._app = app
        self._on_bug = on_bug
        self._error_fields = error_fields
        self._check = check
        self._deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._head: h11.Response | None = None
        self._has_body = True

    def run(self) -> None:
        with suppress(_Disconnected):
            try:
                request = self._next_event()
                # h11 returns another event if the client closes the connection without a request.
                if isinstance(request, h11.Request):
                    self._has_body = request.method != b"HEAD"
                    self._checked(self._environ(request, self._body()))
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, str(error))
            except HttpRefused as refused:
                self._refuse(refused.status, str(refused))

    def _received(self) -> bytes:
        """Read the client's next bytes. Raises `_Disconnected` if these bytes or the whole request take too long."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise _Disconnected
        self._connection.settimeout(min(IDLE_TIMEOUT_S, left_s))
        try:
            return self._connection.recv(PIECE_BYTES)
        except OSError as error:
            raise _Disconnected from error

    def _next_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(self._received())
        return event

    def _body(self) -> bytes:
        body = bytearray()
        try:
            while isinstance(piece := self._next_event(), h11.Data):
                body += piece.data
                if len(body) > MAX_BODY_BYTES:
                    raise HttpRefused(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is too large; at most {MAX_BODY_BYTES} bytes are allowed"
                    )
        except _Disconnected:
            text = f"the body did not arrive in time: only {len(body)} bytes were received"
            raise HttpRefused(HTTPStatus.REQUEST_TIMEOUT, text) from None
        return bytes(body)

    def _environ(self, request: h11.Request, body: bytes) -> dict[str, Any]:
        path, _, query = request.target.decode("latin-1").partition("?")
        headers = {f"HTTP_{name.decode().upper().replace('-', '_')}": value.decode("latin-1") for name, value in request.headers}
        return headers | {
            "REQUEST_METHOD": request.method.decode(),
            "PATH_INFO": unquote(path, "latin-1"),
            "QUERY_STRING": query,
            "REQUEST_URI": request.target.decode("latin-1"),
            "wsgi.input": BytesIO(body),
            HAS_LEFT: partial(has_left, self._connection),
        }

    def _checked(self, environ: dict[str, Any]) -> None:
        try:
            self._check(environ)
        except HostRefused as refused:
            self._error(HTTPStatus.FORBIDDEN, str(refused))
        except HttpRefused as refused:
            self._error(refused.status, str(refused), refused.headers)
        else:
            self._respond(environ)

    def _respond(self, environ: dict[str, Any]) -> None:
        body: Any = ()
        try:
            body = self._app(environ, self._start)
            for data in body:
                self._write(data)
            self._end()
        except _Disconnected:
            raise
        except Exception:
            log.error("http_request_failed", method=environ["REQUEST_METHOD"], path=environ["PATH_INFO"], exc_info=sys.exc_info())
            self._on_bug()
            if self._http.our_state is h11.SEND_RESPONSE:
                self._error(HTTPStatus.INTERNAL_SERVER_ERROR, "an unexpected error has occurred; the broker's log has the details")
        finally:
            getattr(body, "close", lambda: None)()

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        code, _, reason = status.partition(" ")
        self._head = h11.Response(status_code=int(code), reason=reason, headers=[*headers, ("Connection", "close")])
        return self._write

    def _write(self, data: bytes) -> None:
        if self._head is not None:
            self._send(self._head)
            self._head = None
        if self._has_body:
            self._send(h11.Data(data=data))

    def _end(self) -> None:
        self._write(b"")
        self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> None:
        """Send a part of the response. The client may read slowly, but must not stall for `IDLE_TIMEOUT_S`."""
        left = memoryview(self._http.send(event) or b"")
        self._connection.settimeout(IDLE_TIMEOUT_S)
        try:
            # The timeout of `sendall` would apply to the whole part, and cut off a client that reads slowly.
            while left:
                left = left[self._connection.send(left) :]
        except OSError as error:
            raise _Disconnected from error

    def _error(self, status: int, text: str, further_headers: Mapping[str, str] | None = None) -> None:
        body = (
            msgspec.json.encode(self._error_fields(status, text if len(text) <= MAX_TOLD else f"{text[: MAX_TOLD - 3]}...")) + b"\n"
        )
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        headers += (further_headers or {}).items()
        self._start(f"{status} {HTTPStatus(status).phrase}", headers)
        self._write(body)
        self._end()

    def _refuse(self, status: int, text: str) -> None:
        """Respond to a malformed request, and read its rest: an early close could reset the connection and lose the response."""
        self._error(status, text)
        left = MAX_DISCARDED_BYTES
        with suppress(OSError):
            self._connection.shutdown(SHUT_WR)
            while left > 0 and (piece := self._received()):
                left -= len(piece)
