"""Reads HTTP requests and writes the responses with wsgiref, within the limits of `http_server`."""

from __future__ import annotations

from socket import socket
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

IDLE_TIMEOUT_S: Final = 5.0
"""How long a client may stall while it sends a request or reads the response, in s."""


class _Handler(WSGIRequestHandler):
    timeout = IDLE_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for an answered request."""


class RequestServer(ThreadingMixIn, WSGIServer):
    """Answers the clients that connect to the socket ``listening``, which its owner closes."""

    daemon_threads = True

    def __init__(self, listening: socket, app: WSGIApplication, max_connections: int) -> None:
        self._open: set[Any] = set()
        self._max_connections = max_connections
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        # WSGIServer has made a socket of its own, which is not bound and not needed.
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = listening.getsockname()[:2]
        self.setup_environ()
        self.set_app(app)

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
        """Log nothing: a client that stalls or disconnects during a request is no error of the broker."""
