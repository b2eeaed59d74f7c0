"""Metrics of connections and authentications, by listener."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.metrics.connection_metrics import NAME, connection_metrics
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    started = SimulatedBroker({}).start()
    yield started
    started.abandon()


def measured(broker: SimulatedBroker) -> dict[str, dict[str, float]]:
    """Values by name and listener."""
    return {
        metric.name.removeprefix(f"{NAME}_"): {sample.labels["listener"]: sample.value for sample in metric.samples}
        for metric in connection_metrics(broker.broker)
    }


def test_counters_of_a_listener_are_zero_before_the_first_connection(broker: SimulatedBroker) -> None:
    found = measured(broker)
    assert found.pop("reauthentication_latency_avg") == found.pop("reauthentication_latency_max") == {}
    assert found.pop("connection_accept_throttle_time") == {}
    assert set(found) == {
        "connection_count",
        "connection_creation",
        "connection_close",
        "successful_authentication",
        "successful_authentication_no_reauth",
        "failed_authentication",
        "successful_reauthentication",
        "failed_reauthentication",
        "expired_connections_killed_count",
    }
    assert all(values == {"PLAINTEXT": 0} for values in found.values())


def test_connections_are_counted_when_they_open_and_close(broker: SimulatedBroker) -> None:
    first, _ = SimulatedClient(broker, "a"), SimulatedClient(broker, "b")
    first.close()
    found = measured(broker)
    assert (found["connection_creation"], found["connection_close"], found["connection_count"]) == (
        {"PLAINTEXT": 2},
        {"PLAINTEXT": 1},
        {"PLAINTEXT": 1},
    )


def test_connection_that_a_quota_refuses_is_not_counted_while_it_is_open(broker: SimulatedBroker) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type="ip", entity_name=None)],
        ops=[OpData(key="connection_creation_rate", value=1.0, remove=False)],
    )
    SimulatedClient(broker, "admin").call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    for _ in range(11):
        SimulatedClient(broker, "c")
    connections = broker.broker.connections
    assert len(connections) == 12
    before = measured(broker)
    broker.env.advance(1_000)
    assert len(connections) == 11
    found = measured(broker)
    assert found == before
    assert found["connection_count"] == found["connection_creation"] == {"PLAINTEXT": 11}
    assert found["connection_close"] == {"PLAINTEXT": 0}


def test_connection_that_ends_in_its_tls_handshake_is_opened_and_closed(broker: SimulatedBroker) -> None:
    broker.broker.connections.ended_in_handshake("PLAINTEXT")
    found = measured(broker)
    assert found["connection_creation"] == found["connection_close"] == {"PLAINTEXT": 1}
    assert found["connection_count"] == {"PLAINTEXT": 0}


def test_latency_of_reauthentications_has_a_mean_and_a_maximum(broker: SimulatedBroker) -> None:
    for ms in (2, 4, 12):
        broker.broker.counters.reauthentication_ms["SASL_SSL"].add(ms)
    found = measured(broker)
    assert found["reauthentication_latency_avg"] == {"SASL_SSL": 6}
    assert found["reauthentication_latency_max"] == {"SASL_SSL": 12}
