"""What reads HTTP requests and writes the answers (wsgiref), within the bounds of `http_server`."""

from __future__ import annotations

from socket import socket
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

IDLE_TIMEOUT_S: Final = 5.0
"""How long a client may stand still, in its request or in the answer."""


class _Handler(WSGIRequestHandler):
    timeout = IDLE_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """A request that was answered is nothing to tell of."""


class RequestServer(ThreadingMixIn, WSGIServer):
    """Answers those who come to ``listening``, which somebody else closes."""

    daemon_threads = True

    def __init__(self, listening: socket, app: WSGIApplication, max_connections: int) -> None:
        self._open: set[Any] = set()
        self._max_connections = max_connections
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        # The one of its own, which nobody has bound.
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
        """A client that stands still or goes away in the middle is no error of the broker's."""
