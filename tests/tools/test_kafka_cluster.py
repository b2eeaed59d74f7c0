"""Clusters of ottla brokers, of Apache Kafka brokers and of both, controlled by the same code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.testing.cluster_handle import CONTROLLER
from tests.support import oracle
from tools.kafka import Unavailable
from tools.kafka_cluster import ApacheKafkas, SeveralBrokers

pytestmark = [pytest.mark.wire, pytest.mark.full]

SETTINGS = {"broker.session.timeout.ms": 6_000, "broker.heartbeat.interval.ms": 200, "replica.lag.time.max.ms": 6_000}


OTTLA_NODES = {"kafka": (), "ottla under kafka": (1, 2, 3), "kafka under ottla": (2, CONTROLLER)}


@pytest.fixture(scope="module", params=["ottla", *(pytest.param(name, marks=pytest.mark.java) for name in OTTLA_NODES)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    try:
        cluster = (
            ottla.Cluster(3, settings=SETTINGS)
            if request.param == "ottla"
            else ApacheKafkas(tmp_path_factory.mktemp("kafkas"), settings=SETTINGS, ottla_nodes=OTTLA_NODES[request.param])
        ).start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield cluster
    cluster.close()


def test_another_broker_leads_after_a_kill_in_ottla_and_kafka_clusters(cluster: SeveralBrokers) -> None:
    assert cluster.brokers == [1, 2, 3]
    cluster.create_topic("t", 1, replication_factor=3)
    oracle.in_sync(cluster, "t", [1, 2, 3])

    def led_by_another_than(former: int) -> int:
        return oracle.led_by(cluster, "t", [broker for broker in cluster.brokers if broker != former])

    one = cluster.leader("t")
    assert one is not None
    cluster.kill(one)
    two = led_by_another_than(one)
    oracle.in_service(cluster, sorted({1, 2, 3} - {one}))
    cluster.restart(one)
    oracle.in_sync(cluster, "t", [1, 2, 3])
    cluster.pause(two)
    three = led_by_another_than(two)
    cluster.heal()
    oracle.in_sync(cluster, "t", [1, 2, 3])
    cluster.shut_down(three)
    led_by_another_than(three)
    cluster.pause(CONTROLLER)
    cluster.resume(CONTROLLER)
    cluster.heal()
    oracle.in_sync(cluster, "t", [1, 2, 3])
    cluster.move_leader("t", 0, two)
    assert cluster.leader("t") == two


def test_cluster_fixture_finds_coordinators_of_transactional_id_and_group(cluster: SeveralBrokers) -> None:
    assert cluster.coordinator(transactional_id="x") in cluster.brokers
    assert cluster.coordinator(group="g") in cluster.brokers
