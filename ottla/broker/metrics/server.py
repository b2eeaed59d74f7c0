"""Prometheus' metrics over HTTP: for a bounded number of clients, which each have a bounded time."""

from __future__ import annotations

import threading
from socket import AF_INET, AF_INET6
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

MAX_CONNECTIONS: Final = 16
"""Each takes a thread and a descriptor. More are closed at once: a scrape that fails comes again."""
IDLE_TIMEOUT_S: Final = 5.0
"""How long a client may stand still, in its request or in the answer."""


class _Handler(WSGIRequestHandler):
    timeout = IDLE_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """A scrape is nothing to tell of."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, *arguments: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that stands still or goes away in the middle is no error of the broker's."""


def serve(host: str, port: int, registry: CollectorRegistry) -> WSGIServer:
    """Begin to serve in a thread, until ``shutdown``. Raises OSError and ValueError for an address that cannot be had."""

    class Server(_Server):
        address_family = AF_INET6 if ":" in host else AF_INET

    server = make_server(host, port, make_wsgi_app(registry), Server, _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
