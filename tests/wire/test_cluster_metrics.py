"""Metrics of three brokers, added up as the dashboard does, describe the cluster, also after a broker was killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from urllib.request import Request

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla
from tests.support.waiting import TIMEOUT_S, wait_until
from tests.wire.test_metrics import Samples, scrape

pytestmark = [pytest.mark.wire]

RECORDS = 5
"""Records of each partition."""
SETTINGS = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 200,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
}
PLACES = [("spread", 0), ("spread", 1), ("spread", 2), ("copied", 0)]
"""The partitions: one on each broker, and one with a replica on each broker."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings=SETTINGS) as started:
        started.create_topic("spread", 3, replication_factor=1)
        started.create_topic("copied", 1, replication_factor=3)
        yield started


def scraped(cluster: ottla.Cluster) -> list[Samples]:
    """The metrics of each broker, from its control API."""
    apis = [cluster._control_api(broker) for broker in cluster.brokers]
    return [scrape(cluster, Request(f"{api.url}/metrics", headers=api._headers)) for api in apis]  # type: ignore[arg-type]


def total(brokers: list[Samples], name: str, **labels: str) -> float:
    return sum(value for samples in brokers for own, value in samples.get(name, []) if labels.items() <= own.items())


def largest(brokers: list[Samples], name: str) -> dict[tuple[str, int], float]:
    """The largest value of each partition over all brokers, as ``max by (topic, partition)`` in PromQL."""
    found: dict[tuple[str, int], float] = defaultdict(float)
    for samples in brokers:
        for labels, value in samples.get(name, []):
            place = labels["topic"], int(labels["partition"])
            found[place] = max(found[place], value)
    return found


def lags(brokers: list[Samples], end: str) -> dict[tuple[str, int], float]:
    ends, committed = largest(brokers, end), largest(brokers, "kafka_consumergroup_current_offset")
    return {place: max(0, ends[place] - committed[place]) for place in committed}


def open_transaction(cluster: ottla.Cluster, transactional_id: str) -> Producer:
    """Write records to each partition in a transaction that stays open."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for topic, partition in PLACES:
        for number in range(RECORDS):
            producer.produce(topic, str(number), partition=partition)
    producer.flush(TIMEOUT_S)
    return producer


def test_metrics_of_the_brokers_describe_the_cluster_before_and_after_a_kill(cluster: ottla.Cluster) -> None:
    open_transaction(cluster, "committed").commit_transaction(TIMEOUT_S)
    producer = open_transaction(cluster, "open")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, partition, 2) for topic, partition in PLACES], asynchronous=False)
    consumer.close()

    def is_described() -> bool:
        brokers = scraped(cluster)
        # Two transactions and the marker of the first, less the two committed offsets.
        whole, readable = dict.fromkeys(PLACES, 2.0 * RECORDS - 1), dict.fromkeys(PLACES, RECORDS - 1.0)
        above = largest(brokers, "kafka_cluster_partition_laststableoffsetlag")
        return (
            lags(brokers, "kafka_topic_partition_current_offset") == whole
            and lags(brokers, "ottla_partition_lso") == readable
            and all(above[place] == RECORDS for place in PLACES)
            and total(brokers, "ottla_txn_open") == 1
            and total(brokers, "kafka_server_replicamanager_underreplicatedpartitions") == 0
        )

    # Followers learn the high watermark by their next fetch.
    wait_until(is_described)
    brokers = scraped(cluster)
    assert total(brokers, "ottla_txn_total", outcome="commit") == 1
    assert total(brokers, "kafka_server_brokertopicmetrics_messagesin_total", topic="spread") == 3 * 2 * RECORDS
    # Records that followers copy do not count.
    assert total(brokers, "kafka_server_brokertopicmetrics_messagesin_total", topic="copied") == 2 * RECORDS
    # The lag that a broker computes by itself is right where it has the partition.
    lag = [sample for each in brokers for sample in each.get("kafka_consumergroup_lag", [])]
    computed = {(labels["topic"], int(labels["partition"])): value for labels, value in lag}
    assert set(computed.values()) == {2 * RECORDS - 1}
    assert ("copied", 0) in computed
    for broker in cluster.brokers:
        cluster.restart(broker, kill=True)
        wait_until(is_described)
    producer.abort_transaction(TIMEOUT_S)
    wait_until(lambda: total(scraped(cluster), "ottla_txn_open") == 0)
