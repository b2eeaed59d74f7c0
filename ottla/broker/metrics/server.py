"""Serves the metrics over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric

from ottla.broker.http_server import BoundedHttpServer

COLLECT_TIMEOUT_S: Final = 10.0
"""How long a scrape waits for the event loop, in seconds."""


class MetricsServer:
    """Serves the metrics in Prometheus' text format. The function given to `collect_from` is called on the event loop.

    Raises OSError or ValueError for an address at which it cannot listen.
    """

    def __init__(self, host: str, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._collect: Callable[[], list[Metric]] = list
        registry = CollectorRegistry()
        # Metrics are not described in advance, because they change with every topic.
        registry.register(cast(Any, self))
        ProcessCollector(registry=registry)
        self._server = BoundedHttpServer(host, port, make_wsgi_app(registry))
        self.port = self._server.port

    def collect_from(self, collect: Callable[[], list[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        async def metrics() -> list[Metric]:
            return self._collect()

        return asyncio.run_coroutine_threadsafe(metrics(), self._loop).result(COLLECT_TIMEOUT_S)

    def close(self) -> None:
        self._server.close()
