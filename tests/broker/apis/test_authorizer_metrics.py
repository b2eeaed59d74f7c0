"""The metrics of the authorizer equal those of Kafka's StandardAuthorizer (KIP-877)."""

from __future__ import annotations

import pytest

from ottla.broker.loop.counters import RatePerMinute
from ottla.broker.metrics.exposition import collect
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.simulation.broker import SimulatedBroker
from tests.broker.handlers.authorised_broker import authorised, grant, may

PREFIX = "kafka_server_plugins_"


def shown(broker: SimulatedBroker) -> dict[str, float]:
    found = [metric for metric in collect(broker.broker) if metric.name.startswith(PREFIX)]
    return {metric.name.removeprefix(PREFIX): metric.samples[0].value for metric in found}


def test_metrics_count_acls_and_authorization_decisions() -> None:
    broker = authorised()
    grant(broker, may("TOPIC", "open", "READ"), may("TOPIC", "other", "READ"))
    topics = [ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition()]) for name in ("open", "secret", "hidden")]
    with broker.connect() as client:
        client.call(ListOffsetsRequest(replica_id=-1, topics=topics))
    assert shown(broker) == {
        "acls_total_count": 2,
        "authorization_request_rate_per_minute": pytest.approx(6, abs=0.1),
        "authorization_allowed_rate_per_minute": pytest.approx(2, abs=0.1),
        "authorization_denied_rate_per_minute": pytest.approx(4, abs=0.1),
    }
    broker.stop()


def test_broker_without_an_authorizer_has_no_acl_metrics() -> None:
    broker = SimulatedBroker().start()
    assert shown(broker) == {}
    broker.stop()


def test_acl_check_rate_metric_averages_the_last_two_30_second_samples() -> None:
    rate = RatePerMinute()
    now_ms = 1_000_000
    for _ in range(3):
        rate.add(now_ms)
    assert rate.measured(now_ms) == 6
    assert rate.measured(now_ms + 30_000) == 3
    rate.add(now_ms + 30_000)
    assert rate.measured(now_ms + 30_000) == 8
    assert rate.measured(now_ms + 89_999) < 4
    assert rate.measured(now_ms + 90_000) == 0
