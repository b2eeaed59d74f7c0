"""The metrics of clients with quotas, under the JMX exporter's names for Kafka's metrics. Imported only if there are quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily, Metric

from ottla.broker.limits.quota_managers import QuotaManagers
from ottla.coordinator.quota.precedence import Sharing
from ottla.coordinator.quota.sampled import Sampled

THROTTLE_TIME = "Mean throttle time of throttled requests in the last minute, in ms; NaN if no request was throttled"


class ThrottledSensor(Protocol):
    @property
    def rate(self) -> Sampled: ...

    @property
    def throttle_times(self) -> Sampled: ...


def quota_metrics(managers: QuotaManagers, now_ms: int) -> Iterator[Metric]:
    """The metrics of all clients that were measured in the last hour. A label is empty if the quota does not depend on it."""
    named = (
        ("produce_byte_rate", "Bytes per second that clients produce", managers.produce),
        ("fetch_byte_rate", "Bytes per second that clients fetch", managers.fetch),
        ("request_request_time", "Share of the event loop's time that requests of a client take, in percent", managers.request),
        ("controllermutation_mutation_rate", "Partitions per second that clients create and delete", managers.mutation),
    )
    for name, text, manager in named:
        sensors: list[tuple[Sharing, ThrottledSensor]] = list(manager.sensors.current(now_ms))
        yield _gauge(name, text, ((key, sensor.rate.rate(now_ms)) for key, sensor in sensors))
        throttle_times = ((key, sensor.throttle_times.mean(now_ms)) for key, sensor in sensors)
        yield _gauge(f"{name.partition('_')[0]}_throttle_time", THROTTLE_TIME, throttle_times)
    mutation = managers.mutation
    tokens = ((key, s.bucket.tokens(mutation.rate(key), now_ms)) for key, s in mutation.sensors.current(now_ms))
    yield _gauge("controllermutation_tokens", "Partitions that clients may create or delete at once", tokens)
    addresses = managers.connections.sensors.current(now_ms)
    name = "kafka_server_socket_server_metrics"
    rates = GaugeMetricFamily(f"{name}_connection_accept_rate", "Connections per second of an address with a quota", labels=["ip"])
    for address, sensor in addresses:
        rates.add_metric([address], sensor.rate.rate(now_ms))
    yield rates
    text = "Mean throttle time in the last minute of connections refused by the quota of their address, in ms"
    times = GaugeMetricFamily(f"{name}_ip_connection_accept_throttle_time", text, labels=["listener"])
    for listener, sampled in managers.connections.throttle_times.items():
        times.add_metric([listener], sampled.mean(now_ms))
    yield times


def _gauge(name: str, text: str, samples: Iterable[tuple[Sharing, float]]) -> Metric:
    family = GaugeMetricFamily(f"kafka_server_{name}", text, labels=["user", "client_id"])
    for sharing, value in samples:
        family.add_metric(list(sharing), value)
    return family
