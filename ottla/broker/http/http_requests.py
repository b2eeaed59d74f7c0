"""Reads HTTP requests and writes the responses with wsgiref, within the limits of `http_server`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from io import BufferedIOBase, BufferedReader, BytesIO, RawIOBase
from selectors import EVENT_READ, DefaultSelector
from socket import MSG_PEEK, SHUT_WR, socket
from socketserver import ThreadingMixIn
from typing import IO, TYPE_CHECKING, Any, Final, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

import msgspec
import structlog

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

IDLE_TIMEOUT_S: Final = 5.0
"""Time in s that a client may stall while it sends a request or reads the response."""
REQUEST_TIMEOUT_S: Final = 10.0
"""Time in s that a client may take to send its whole request, even if bytes keep arriving, because it uses one of few
connections."""
MAX_LINE_BYTES: Final = 1 << 16
"""Maximum size of the request line in bytes. The library has the same limit for a header."""
MAX_BODY_BYTES: Final = 1 << 20
MAX_DISCARDED_BYTES: Final = 16 << 20
DISCARDED_PIECE_BYTES: Final = 1 << 16
"""Size in bytes of the pieces in which the rest of a refused request is read and dropped. Beyond `MAX_DISCARDED_BYTES` the
connection is closed."""
MAX_TOLD: Final = 200
"""Maximum length of an error text in characters. Texts of the library quote the request."""
JSON: Final = "application/json"
HAS_LEFT: Final = "ottla.has_left"
"""Key of a function in a request's WSGI environment that returns whether the client has closed the connection."""

_SIZE = re.compile("[0-9]{1,15}", re.ASCII)

log = structlog.get_logger("http")


def has_left(connection: socket) -> bool:
    """Whether the other side has closed a connection. False for a client that sends its next request early."""
    try:
        with DefaultSelector() as selector:
            selector.register(connection, EVENT_READ)
            return bool(selector.select(0)) and not connection.recv(1, MSG_PEEK)
    except (OSError, ValueError):
        return True


class _Writer(BufferedIOBase):
    """Writes to a client. Raises BrokenPipeError, a disconnect for wsgiref, if the client reads nothing for `IDLE_TIMEOUT_S`."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        left = memoryview(data)
        try:
            # The timeout of `sendall` would apply to the whole write, and cut off a client that reads slowly.
            while left:
                left = left[self._connection.send(left) :]
        except TimeoutError as error:
            raise BrokenPipeError(str(error)) from error
        return len(data)


class _Reader(RawIOBase):
    """Reads from a client, which has `IDLE_TIMEOUT_S` for its next byte and `REQUEST_TIMEOUT_S` for all. Raises TimeoutError."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._deadline_s = time.monotonic() + REQUEST_TIMEOUT_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(min(IDLE_TIMEOUT_S, left_s))
        try:
            return self._connection.recv_into(buffer)
        finally:
            # The response has this timeout as well.
            self._connection.settimeout(IDLE_TIMEOUT_S)


def _told(text: str) -> bytes:
    """The JSON body of an error response."""
    return msgspec.json.encode({"error": text if len(text) <= MAX_TOLD else f"{text[: MAX_TOLD - 3]}..."}) + b"\n"


class _NoRequest(Exception):
    """The client's bytes are not a valid request. The text is one line for a person."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Responder(ServerHandler):
    """Calls the app, and responds with JSON if the app fails."""

    os_environ: dict[str, str] = {}
    """No environment variable of the process, such as HTTP_HOST, is part of a request."""
    error_status = f"{HTTPStatus.INTERNAL_SERVER_ERROR} {HTTPStatus.INTERNAL_SERVER_ERROR.phrase}"
    error_headers = [("Content-Type", JSON)]
    error_body = _told("an unexpected error has occurred; the broker's log has the details")

    def __init__(self, handler: _Handler, body: bytes) -> None:
        super().__init__(BytesIO(body), cast(IO[bytes], handler.wfile), handler.get_stderr(), handler.get_environ())
        self.request_handler = handler

    def write(self, data: bytes) -> None:
        super().write(b"" if self.request_handler.command == "HEAD" else data)

    def log_exception(self, exc_info: Any) -> None:
        handler = self.request_handler
        log.error("http_request_failed", method=handler.command, path=handler.path, exc_info=exc_info)
        handler.server.on_bug()


class _Handler(WSGIRequestHandler):
    timeout = IDLE_TIMEOUT_S
    server: RequestServer

    def setup(self) -> None:
        super().setup()
        self.rfile = BufferedReader(_Reader(self.connection))
        self.wfile = _Writer(self.connection)
        self._is_refused = False

    def handle(self) -> None:
        """Handle one request. Raises TimeoutError, without a response, if its line and headers do not arrive."""
        self.raw_requestline = self.rfile.readline(MAX_LINE_BYTES + 1)
        if len(self.raw_requestline) > MAX_LINE_BYTES:
            self.requestline = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            try:
                body = self._body()
            except _NoRequest as refused:
                self.send_error(refused.status, str(refused))
            else:
                _Responder(self, body).run(self.server.app)

    def _body(self) -> bytes:
        """The body of the request. Raises `_NoRequest`."""
        if "Transfer-Encoding" in self.headers:
            raise _NoRequest(
                HTTPStatus.LENGTH_REQUIRED, "send the size of the body in Content-Length; Transfer-Encoding is not supported"
            )
        given = self.headers.get("Content-Length", "0").strip()
        if not _SIZE.fullmatch(given):
            raise _NoRequest(HTTPStatus.BAD_REQUEST, "Content-Length is not a number of bytes")
        size, got = int(given), b""
        if size > MAX_BODY_BYTES:
            raise _NoRequest(HTTPStatus.BAD_REQUEST, f"the body is too large; at most {MAX_BODY_BYTES} bytes are allowed")
        try:
            while len(got) < size and (piece := self.rfile.read1(size - len(got))):
                got += piece
        except TimeoutError:
            text = f"the body did not arrive in time: {len(got)} of {size} bytes were received"
            raise _NoRequest(HTTPStatus.REQUEST_TIMEOUT, text) from None
        if len(got) < size:
            raise _NoRequest(HTTPStatus.BAD_REQUEST, f"the body ends after {len(got)} of {size} bytes")
        return got

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Respond to malformed requests with JSON instead of the library's HTML page."""
        self._is_refused = True
        # The library has not read the HTTP version yet, and would omit the status and the headers.
        self.request_version = self.protocol_version
        body = _told(message or HTTPStatus(code).phrase)
        self.send_response(code)
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # The library may not have read the method yet.
        if not self.raw_requestline.startswith(b"HEAD "):
            self.wfile.write(body)

    def finish(self) -> None:
        if self._is_refused:
            with suppress(OSError):
                self._discard()
        super().finish()

    def _discard(self) -> None:
        """Read the rest of the client's request. Closing earlier resets the connection, and the client may miss the response."""
        self.connection.shutdown(SHUT_WR)
        left = MAX_DISCARDED_BYTES
        while left > 0 and (piece := self.rfile.read1(DISCARDED_PIECE_BYTES)):
            left -= len(piece)

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), HAS_LEFT: partial(has_left, self.connection)}

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for a handled request."""


class RequestServer(ThreadingMixIn, WSGIServer):
    """Serves the clients that connect to the socket ``listening``, which its owner closes.

    ``on_bug`` is called on the request's thread if the app raises an exception, which is logged and gets the response 500.
    """

    daemon_threads = True

    def __init__(self, listening: socket, app: WSGIApplication, max_connections: int, on_bug: Callable[[], None]) -> None:
        self._open: set[Any] = set()
        self._max_connections = max_connections
        self.on_bug = on_bug
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        # WSGIServer has created its own socket, which is not bound and not needed.
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = listening.getsockname()[:2]
        self.setup_environ()
        self.app = app

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= self._max_connections:
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that stalls or disconnects during a request is not an error of the broker."""
