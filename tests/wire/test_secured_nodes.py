"""Nodes that connect to each other by TLS and SASL: clusters of ottla, and clusters with nodes of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing.cluster_handle import CONTROLLER
from tests.support import oracle
from tests.support.waiting import wait_until
from tests.wire.secured_nodes import SecuredNodes
from tools.kafka import Unavailable
from tools.kafka_cluster import ApacheKafkas

pytestmark = [pytest.mark.wire, pytest.mark.full]

PATIENCE_S = oracle.LIMIT_S
INTERNAL = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
ALL = (CONTROLLER, 1, 2, 3)


@contextmanager
def running(directory: Path, nodes: SecuredNodes, ottla_nodes: tuple[int, ...] = ALL, **how: Any) -> Iterator[ApacheKafkas]:
    cluster = ApacheKafkas(
        directory / "nodes", settings={**INTERNAL, **nodes.settings()}, ottla_nodes=ottla_nodes, between=nodes.between, **how
    )
    try:
        cluster.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        yield cluster
    finally:
        cluster.close()


def transact(cluster: ApacheKafkas, nodes: SecuredNodes, topic: str, turns: int, name: str) -> list[bytes]:
    """Commit half of the transactions, with offsets of a group; returns the committed values."""
    addresses = [cluster.secured(broker) for broker in cluster.brokers]
    consumer = Consumer({**nodes.client(*addresses), "group.id": name})
    producer = Producer({**nodes.client(*addresses), "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    committed = []
    for turn in range(turns):
        producer.begin_transaction()
        value = f"{name} {turn}".encode()
        producer.produce(topic, value)
        position = [TopicPartition("input", 0, turn)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), PATIENCE_S)
        if turn % 2:
            producer.commit_transaction(PATIENCE_S)
            committed.append(value)
        else:
            producer.abort_transaction(PATIENCE_S)
    return committed


def consumed(cluster: ApacheKafkas, nodes: SecuredNodes, topic: str, count: int, group: str) -> list[bytes]:
    """Read records as a member of a group, and commit their offsets."""
    addresses = [cluster.secured(broker) for broker in cluster.brokers]
    consumer = Consumer({**nodes.client(*addresses), "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
        return len(values) >= count

    wait_until(read)
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def story(cluster: ApacheKafkas, nodes: SecuredNodes, victim: int | None = None) -> None:
    """Transactions and a group before and after the death of the leader, which then is in sync again."""
    cluster.create_topic("input", 1)
    cluster.create_topic("t", 1, {"min.insync.replicas": "2"}, replication_factor=3)
    written = transact(cluster, nodes, "t", 4, "first")
    assert consumed(cluster, nodes, "t", len(written), "readers") == written
    if victim is not None and cluster.leader("t") != victim:
        cluster.move_leader("t", 0, victim)
    leader = cluster.leader("t")
    assert leader is not None
    cluster.kill(leader)
    oracle.led_by(cluster, "t", [broker for broker in cluster.brokers if broker != leader])
    later = transact(cluster, nodes, "t", 4, "second")
    cluster.restart(leader)
    oracle.in_sync(cluster, "t", cluster.brokers)
    cluster.move_leader("t", 0, leader)
    later += transact(cluster, nodes, "t", 2, "third")
    assert consumed(cluster, nodes, "t", len(later), "readers") == later


@pytest.mark.parametrize("between", ["SASL_SSL", "SSL", "SASL_PLAINTEXT"])
def test_cluster_of_ottla(tmp_path: Path, between: str) -> None:
    nodes = SecuredNodes(tmp_path, between)
    with running(tmp_path, nodes) as cluster:
        story(cluster, nodes)
        assert not [line for line in cluster.logs if '"level": "error"' in line]
