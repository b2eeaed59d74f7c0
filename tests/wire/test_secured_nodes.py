"""Nodes that connect to each other by TLS and SASL: clusters of ottla, and clusters with nodes of Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing.cluster_handle import CONTROLLER
from tests.support import oracle
from tests.support.waiting import wait_until
from tests.wire.secured_nodes import SCRAM, SecuredNodes
from tools.kafka import Unavailable
from tools.kafka_cluster import ApacheKafkas
from tools.ottla_node import OttlaNode

pytestmark = [pytest.mark.wire, pytest.mark.full]

PATIENCE_S = oracle.LIMIT_S
INTERNAL = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
ALL = (CONTROLLER, 1, 2, 3)
WITH_KAFKA, WITH_KAFKA_IDS = [(1, 2), (CONTROLLER, 1)], ["controller_of_kafka", "controller_of_ottla"]
NIGHTLY = pytest.mark.nightly


@contextmanager
def running(directory: Path, nodes: SecuredNodes, ottla_nodes: tuple[int, ...] = ALL, **how: Any) -> Iterator[ApacheKafkas]:
    users = nodes.passwords if nodes.mechanism == SCRAM else None
    settings = {**INTERNAL, **nodes.settings()}
    cluster = ApacheKafkas(
        directory / "nodes", settings=settings, ottla_nodes=ottla_nodes, between=nodes.between, users=users, **how
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
    """Run transactions and commit half of them, each with offsets of a group. Returns the committed values."""
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
    """Run transactions and a group before and after the death of a leader, until that broker is in sync again."""
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


KINDS: dict[str, dict[str, Any]] = {
    "SASL_SSL": {"between": "SASL_SSL"},
    "SSL": {"between": "SSL"},
    "mTLS": {"between": "SSL", "needs_certificates": True},
    "SASL_PLAINTEXT": {"between": "SASL_PLAINTEXT"},
    "SCRAM": {"between": "SASL_SSL", "mechanism": SCRAM},
}
"""Arguments of `SecuredNodes` by the name of a case."""


@pytest.mark.parametrize("kind", KINDS)
def test_secured_cluster_of_ottla_survives_the_death_of_its_leader(tmp_path: Path, kind: str) -> None:
    nodes = SecuredNodes(tmp_path, **KINDS[kind])
    with running(tmp_path, nodes) as cluster:
        story(cluster, nodes)
        assert not [line for line in cluster.logs if '"level": "error"' in line]


@pytest.mark.java
@pytest.mark.parametrize("ottla_nodes", WITH_KAFKA, ids=WITH_KAFKA_IDS)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in ("SASL_SSL", "mTLS") else NIGHTLY) for kind in KINDS])
def test_secured_cluster_with_kafka_nodes_survives_the_death_of_its_leader(
    tmp_path: Path, kind: str, ottla_nodes: tuple[int, ...]
) -> None:
    nodes = SecuredNodes(tmp_path, **KINDS[kind])
    with running(tmp_path, nodes, ottla_nodes) as cluster:
        story(cluster, nodes, victim=1)
        story_of_other(cluster, nodes)


def story_of_other(cluster: ApacheKafkas, nodes: SecuredNodes) -> None:
    """An Apache Kafka broker leads, and the others follow it."""
    (leader, *_) = [broker for broker in cluster.brokers if not cluster.is_ottla(broker)]
    oracle.in_sync(cluster, "t", cluster.brokers)
    if cluster.leader("t") != leader:
        cluster.move_leader("t", 0, leader)
    written = transact(cluster, nodes, "t", 4, "fourth")
    oracle.in_sync(cluster, "t", cluster.brokers)
    assert consumed(cluster, nodes, "t", len(written), "readers") == written


def refusals(cluster: ApacheKafkas) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in cluster.logs if line.startswith("{")]
    return [line for line in lines if line["event"] == "peer_authentication_failed"]


def test_broker_with_a_wrong_password_joins_the_cluster_once_the_password_is_corrected(tmp_path: Path) -> None:
    nodes = SecuredNodes(tmp_path)
    with running(tmp_path, nodes) as cluster:
        cluster.shut_down(3)
        broker = cluster.node(3)
        assert isinstance(broker, OttlaNode)
        right = broker.settings
        broker.settings = {**right, **nodes.settings("of another cluster")}
        broker.launch()
        wait_until(lambda: bool(refusals(cluster)))
        wait_until(lambda: any(line.get("times", 0) > 5 for line in refusals(cluster)))
        lines = refusals(cluster)
        assert {line["reason"].partition(" at ")[0] for line in lines} == {"authentication of 'admin' by PLAIN"}
        assert all(line["reason"].endswith("Authentication failed: Invalid username or password") for line in lines)
        # Log lines of the controller and two other brokers: each event once, then once more with the number of repetitions.
        assert len([line for line in lines if "times" not in line]) <= 3
        assert "of another cluster" not in "".join(cluster.logs)
        broker.kill()
        broker.settings = right
        cluster.restart(3)
        cluster.wait_for(lambda: cluster.in_service() == [1, 2, 3])


@pytest.mark.parametrize("fault", ["expired", "untrusted", "of another host"])
def test_broker_logs_a_peer_with_a_wrong_certificate_until_the_certificate_is_replaced(tmp_path: Path, fault: str) -> None:
    nodes = SecuredNodes(tmp_path)
    with running(tmp_path, nodes) as cluster:
        cluster.create_topic("t", 1, {"min.insync.replicas": "2"}, replication_factor=3)
        cluster.move_leader("t", 0, 3)
        cluster.shut_down(3)
        broker = cluster.node(3)
        assert isinstance(broker, OttlaNode)
        right = broker.settings
        broker.settings = {**right, "listener.name.sasl_ssl.ssl.keystore.location": nodes.faulty(fault)}
        broker.start()
        cluster.wait_for(lambda: 3 in cluster.in_service())
        cluster.create_topic("u", 3, replication_factor=3)
        address = cluster.secured(3)
        wait_until(lambda: len({line["peer"] for line in refusals(cluster)} & {address}) == 1)
        reason = next(line["reason"] for line in refusals(cluster))
        assert reason.startswith(f"the broker at {address} presented a certificate"), reason
        assert {"expired": "expired", "untrusted": "is not trusted", "of another host": "of another host"}[fault] in reason, reason
        broker.stop()
        broker.settings = right
        cluster.restart(3)
        oracle.in_sync(cluster, "t", cluster.brokers)
        oracle.in_sync(cluster, "u", cluster.brokers)
