"""Several brokers of ottla and of Apache Kafka, driven by the same code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.cluster_handle import CONTROLLER
from tools.kafka import Unavailable
from tools.kafka_cluster import ApacheKafkas, SeveralBrokers

pytestmark = [pytest.mark.wire, pytest.mark.full]

PATIENCE_S = 30.0
SETTINGS = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 200, "replica.lag.time.max.ms": 2_000}


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.java)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SeveralBrokers]:
    try:
        cluster = (
            ottla.Cluster(3, settings=SETTINGS) if request.param == "ottla" else ApacheKafkas(tmp_path, settings=SETTINGS)
        ).start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield cluster
    cluster.close()


def test_brokers_fail_and_come_back(cluster: SeveralBrokers) -> None:
    assert cluster.brokers == [1, 2, 3]
    cluster.create_topic("t", 1, replication_factor=3)
    cluster.wait_for(lambda: cluster.in_sync("t") == [1, 2, 3], PATIENCE_S)

    def led_by_another_than(former: int) -> int:
        others = cluster.wait_for(lambda: cluster.leader("t") not in (former, None), PATIENCE_S) and cluster.leader("t")
        assert others in {1, 2, 3} - {former}
        return others

    one = cluster.leader("t")
    assert one is not None
    cluster.kill(one)
    two = led_by_another_than(one)
    assert cluster.wait_for(lambda: cluster.in_service() == sorted({1, 2, 3} - {one}), PATIENCE_S)
    cluster.restart(one)
    cluster.wait_for(lambda: cluster.in_sync("t") == [1, 2, 3], PATIENCE_S)
    cluster.pause(two)
    three = led_by_another_than(two)
    cluster.heal()
    cluster.wait_for(lambda: cluster.in_sync("t") == [1, 2, 3], PATIENCE_S)
    cluster.shut_down(three)
    led_by_another_than(three)
    cluster.pause(CONTROLLER)
    cluster.resume(CONTROLLER)
    cluster.heal()
    cluster.wait_for(lambda: cluster.in_sync("t") == [1, 2, 3], PATIENCE_S)
    cluster.move_leader("t", 0, two)
    assert cluster.leader("t") == two


def test_coordinators_are_brokers(cluster: SeveralBrokers) -> None:
    assert cluster.coordinator(transactional_id="x") in cluster.brokers
    assert cluster.coordinator(group="g") in cluster.brokers
