"""Serves the metrics over HTTP: on their own port, or as an app for another server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric

from ottla.http.http_server import BoundedHttpServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATH: Final = "/metrics"
COLLECT_TIMEOUT_S: Final = 10.0
"""How long a scrape waits for the event loop, in seconds."""


class _Collector:
    """Adapter for prometheus_client. Metrics are not described in advance, because they change with every topic."""

    def __init__(self, collect: Callable[[], list[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> list[Metric]:
        return []


def app_of(collect: Callable[[], list[Metric]]) -> WSGIApplication:
    """A WSGI app that serves the metrics from ``collect`` in Prometheus' text format. ``collect`` runs on the request's thread."""
    registry = CollectorRegistry()
    registry.register(cast(Any, _Collector(collect)))
    ProcessCollector(registry=registry)
    app: WSGIApplication = make_wsgi_app(registry)
    return app


def _only_at(path: str, app: WSGIApplication) -> WSGIApplication:
    """Respond with 404 at other paths, so that a mistyped URL in Prometheus is noticed."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == path:
            return app(environ, start_response)
        body = f"The metrics are at {path}.\n".encode()
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [body]

    return answer


class MetricsServer:
    """Serves the metrics on their own port. The function given to `collect_from` is called on the event loop.

    Raises OSError or ValueError for an address at which it cannot listen.
    """

    def __init__(self, host: str, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._collect: Callable[[], list[Metric]] = list
        # Prometheus may use any host name: metrics are not secret, and a request changes nothing.
        self._server = BoundedHttpServer(host, port, _only_at(PATH, app_of(self._collected)), own_names=None)
        self.port = self._server.port
        self._server.serve()

    def collect_from(self, collect: Callable[[], list[Metric]]) -> None:
        self._collect = collect

    def _collected(self) -> list[Metric]:
        async def metrics() -> list[Metric]:
            return self._collect()

        return asyncio.run_coroutine_threadsafe(metrics(), self._loop).result(COLLECT_TIMEOUT_S)

    def close(self) -> None:
        self._server.close()
