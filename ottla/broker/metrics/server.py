"""Prometheus' metrics over HTTP: for a bounded number of clients, which each have a bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from socket import AF_INET, AF_INET6
from socketserver import ThreadingMixIn
from typing import Any, Final, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric

MAX_CONNECTIONS: Final = 16
"""Each takes a thread and a descriptor. More are closed at once: a scrape that fails comes again."""
IDLE_TIMEOUT_S: Final = 5.0
"""How long a client may stand still, in its request or in the answer."""
COLLECT_TIMEOUT_S: Final = 10.0
"""How long a scrape waits for the event loop."""


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


class MetricsServer:
    """Serves what ``collect`` gives in Prometheus' text format, from a thread of its own. ``collect`` is called on the event loop.

    Raises OSError and ValueError for an address that cannot be had.
    """

    def __init__(self, host: str, port: int, collect: Callable[[], list[Metric]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._collect = collect
        registry = CollectorRegistry()
        # Not described beforehand: what there is to tell changes with every topic.
        registry.register(cast(Any, self))
        ProcessCollector(registry=registry)

        class Server(_Server):
            address_family = AF_INET6 if ":" in host else AF_INET

        self._server = make_server(host, port, make_wsgi_app(registry), Server, _Handler)
        self.port: int = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        async def metrics() -> list[Metric]:
            return self._collect()

        return asyncio.run_coroutine_threadsafe(metrics(), self._loop).result(COLLECT_TIMEOUT_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
