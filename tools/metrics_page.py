"""Writes docs/metrics.md, the page of all metrics, from the metrics of a simulated broker: ``python -m tools.metrics_page``."""

from __future__ import annotations

import sys
from pathlib import Path

from prometheus_client.core import Metric

from ottla.broker.metrics.exposition import collect
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.simulation.broker import SimulatedBroker

TARGET = Path(__file__).parent.parent / "docs" / "metrics.md"
HEAD = """# Metrics

<!-- Written by `python -m tools.metrics_page`; tests/tools/test_pages.py compares. -->

`ottla serve --metrics-port 9404` serves metrics to Prometheus at `http://127.0.0.1:9404/metrics`. Most have the names that
dashboards for Kafka use: names of Kafka's MBeans by the JMX exporter with Strimzi's rules, and of kafka_exporter for groups and
topics. [examples/grafana](../examples/grafana/README.md) has a dashboard for Grafana.

Kafka also has a `-rate` of each `-total` of a listener. ottla has only the totals, from which Prometheus computes rates:
`rate(kafka_server_socket_server_metrics_failed_authentication_total[1m])`. Quotas are rates, so their metrics are rates, over the
window of the quota.

| metric | type | labels | what it says |
|---|---|---|---|
"""

SETTINGS = {
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "max.connection.creation.rate": "1",
}


def page() -> str:
    return HEAD + "".join(_row(metric) for metric in sorted(exposed(), key=lambda metric: metric.name))


def exposed() -> list[Metric]:
    """Return the metrics of a broker with a topic, a committed offset and quotas, so that each metric has a sample with labels."""
    simulated = SimulatedBroker(SETTINGS).start().with_coordinators()
    try:
        simulated.broker.cluster.create_topic("orders", 1, {})
        with simulated.connect() as client:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
            topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
            client.call(OffsetCommitRequest(group_id="billing", topics=[topic]), 8)
        _use_quotas(simulated)
        simulated.broker.counters.reauthentication_ms["SASL_SSL"].add(1)
        return collect(simulated.broker)
    finally:
        simulated.abandon()


def _use_quotas(simulated: SimulatedBroker) -> None:
    """Set each quota and have a client use it."""
    for entity, *keys in (
        ("client-id", "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
        ("ip", "connection_creation_rate"),
    ):
        simulated.broker.cluster.alter_quotas(((entity, None),), dict.fromkeys(keys, 1.0), validate_only=False)
    with simulated.connect():
        managers = simulated.broker.quotas.managers
        managers.produced("", "app", 1, 0.0)
        managers.fetched("", "app", 1, 0.0)
        managers.mutation_quota("", "app", is_strict=True)
        limits = simulated.broker.connections.of_listeners
        assert limits is not None
        # Connect until the listener and the address exceed their quotas.
        while not limits.accepted_after_ms("PLAINTEXT") or not managers.connections.record("10.0.0.1", "PLAINTEXT", 0):
            pass


def _row(metric: Metric) -> str:
    labels = {label for sample in metric.samples for label in sample.labels} - {"le"}
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    shown = ", ".join(f"`{label}`" for label in sorted(labels)) or "none"
    return f"| `{name}` | {metric.type} | {shown} | {metric.documentation} |\n"


def main() -> int:
    TARGET.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
