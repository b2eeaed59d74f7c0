"""The metrics of connections and authentications by listener, under the JMX exporter's names for Kafka's metrics.

Kafka's metrics have the tag ``networkProcessor``, too; ottla has one event loop for all connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.loop.counters import Counters
from ottla.broker.network.listener import Connections

NAME = "kafka_server_socket_server_metrics"
AUTHENTICATIONS = {
    "successful_authentication": "Clients that have authenticated by TLS or SASL",
    "successful_authentication_no_reauth": (
        "Clients that have authenticated and cannot authenticate again: clients of TLS without SASL, and of SaslAuthenticate 0"
    ),
    "failed_authentication": "Clients whose TLS handshake or SASL authentication failed",
    "successful_reauthentication": "Clients that have authenticated again before their session ended (KIP-368)",
    "failed_reauthentication": "Clients whose re-authentication failed",
}
EXPIRED = "expired_connections_killed"


class Ports(Protocol):
    connections: Connections
    counters: Counters


def connection_metrics(ports: Ports) -> Iterator[Metric]:
    """The metrics of each listener (org.apache.kafka.common.network.Selector, kafka.network.Processor). As in Kafka, counters of a
    listener are 0 before the first connection."""
    connections, counters = ports.connections, ports.counters
    limits = connections.of_listeners
    listeners = {*(() if limits is None else limits.listeners), *connections.opened_by_listener}

    def total(what: str, text: str, counts: Mapping[str, int]) -> Metric:
        return _of_listeners(CounterMetricFamily, what, text, {listener: counts.get(listener, 0) for listener in listeners})

    def outcomes(outcome: str) -> dict[str, int]:
        return {listener: counters.authentications[listener, outcome] for listener in listeners}

    current = {listener: connections.open_at(listener) for listener in listeners}
    yield _of_listeners(GaugeMetricFamily, "connection_count", "Open connections", current)
    yield total("connection_creation", "Connections that clients have opened", connections.opened_by_listener)
    yield total("connection_close", "Connections that were closed, by clients or by the broker", connections.closed_by_listener)
    for what, text in AUTHENTICATIONS.items():
        yield total(what, text, outcomes(what))
    text = "Connections closed because the client did not authenticate again before its session ended"
    yield _of_listeners(GaugeMetricFamily, f"{EXPIRED}_count", text, outcomes(EXPIRED))
    yield from _reauthentication_times(counters)
    if limits is not None:
        text = "Mean time in the last minute by which connections were delayed by max.connection.creation.rate, in ms"
        yield _of_listeners(GaugeMetricFamily, "connection_accept_throttle_time", text, limits.throttle_times())


def _reauthentication_times(counters: Counters) -> Iterator[Metric]:
    recent = {listener: times.last for listener, times in counters.reauthentication_ms.items()}
    text = "{} time of the last 1,024 re-authentications, from SaslHandshake to the last token, in ms"
    means = {listener: sum(last) / len(last) for listener, last in recent.items()}
    yield _of_listeners(GaugeMetricFamily, "reauthentication_latency_avg", text.format("Mean"), means)
    longest = {listener: max(last) for listener, last in recent.items()}
    yield _of_listeners(GaugeMetricFamily, "reauthentication_latency_max", text.format("Maximum"), longest)


def _of_listeners(kind: type[GaugeMetricFamily | CounterMetricFamily], what: str, text: str, values: Mapping[str, float]) -> Metric:
    family = kind(f"{NAME}_{what}", text, labels=["listener"])
    for listener, value in sorted(values.items()):
        family.add_metric([listener], value)
    return family
