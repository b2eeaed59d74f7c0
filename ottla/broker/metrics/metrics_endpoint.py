"""The HTTP endpoint for the metrics of a broker or a controller, if configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.addresses import joined_address
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import Listening, why_not_bound
from ottla.broker.network.listener import Endpoint

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ottla.broker.metrics.connection_metrics import Ports as ConnectionPorts
    from ottla.broker.metrics.controller_report import ControllerReport
    from ottla.broker.metrics.exposition import Ports


class ServedMetrics(Listening, Protocol):
    """The HTTP server of the metrics."""

    def collect_from(self, collect: Callable[[], list[Metric]]) -> None:
        """Call ``collect`` for each scrape from now on. Before the first call of this method a scrape gets no metrics."""
        ...


ServeMetrics = Callable[[str, int], ServedMetrics]
"""Starts the metrics server at a host and a port. Raises OSError or ValueError for an address that cannot be bound."""


class MetricsEndpoint:
    """The HTTP endpoint. ``serve`` starts it if ``ottla.metrics.port`` is set; ``served`` is inherited from a replaced broker."""

    def __init__(self, settings: Settings, serve: ServeMetrics | None, served: ServedMetrics | None) -> None:
        self._settings = settings
        self._serve = serve
        self.served = served

    def open(self, ports: Ports) -> None:
        """Serve the metrics of a broker. Raises `ConfigError`."""

        def collect() -> list[Metric]:
            # Imported only when metrics are collected, because importing prometheus_client is slow.
            from ottla.broker.metrics.exposition import collect

            return collect(ports)

        self._open(collect)

    def open_for_controller(self, report: Callable[[], ControllerReport], ports: ConnectionPorts) -> None:
        """Serve the metrics of a process that is only a controller, and those of its listener. Raises `ConfigError`."""

        def collect() -> list[Metric]:
            from ottla.broker.metrics.connection_metrics import connection_metrics
            from ottla.broker.metrics.controller_metrics import controller_metrics

            return [*controller_metrics(report()), *connection_metrics(ports)]

        self._open(collect)

    def _open(self, collect: Callable[[], list[Metric]]) -> None:
        settings = self._settings
        if self.served is None and settings.ottla_metrics_port is not None and self._serve is not None:
            where = Endpoint("metrics", settings.ottla_metrics_host, settings.ottla_metrics_port)
            try:
                self.served = self._serve(where.host, where.port)
            except (OSError, ValueError) as error:
                raise ConfigError(f"cannot serve metrics on {where}: {why_not_bound(error)}") from error
        if self.served is not None:
            self.served.collect_from(collect)

    @property
    def url(self) -> str | None:
        """The URL of the metrics for Prometheus; None if no metrics are served."""
        if self.served is None:
            return None
        return f"http://{joined_address((self._settings.ottla_metrics_host, self.served.port))}/metrics"

    def close(self) -> None:
        if self.served is not None:
            self.served.close()
