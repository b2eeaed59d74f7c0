"""A coordinator fails while a transaction is open, decided or pending, and stock clients continue with the next coordinator."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla
from tests.support.waiting import wait_until
from tests.wire.clients.confluent import committed_offsets

pytestmark = [pytest.mark.wire]

PARTITIONS = 6
PATIENCE_S = 60.0
SOCKET_MS = 4_000
"""Time that a client waits for a frozen broker before it looks up the coordinator again."""
SETTINGS = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 200,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}


@pytest.fixture(scope="module")
def shared() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings=SETTINGS) as cluster:
        yield cluster
        errors = [line for line in cluster.logs if '"level": "error"' in line]
    assert not errors


@pytest.fixture
def cluster(shared: ottla.Cluster) -> ottla.Cluster:
    shared.heal()
    return shared


@pytest.fixture
def topic(cluster: ottla.Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, PARTITIONS, replication_factor=3)
    return name


def begun(cluster: ottla.Cluster, topic: str) -> Producer:
    """Return a producer with an open transaction on all partitions. Its transactional id is the topic's name."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "socket.timeout.ms": SOCKET_MS})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    write(producer, topic, "first")
    assert producer.flush(PATIENCE_S) == 0
    return producer


def write(producer: Producer, topic: str, name: str) -> None:
    for index in range(PARTITIONS):
        producer.produce(topic, f"{name}-{index}", partition=index)


def check_committed(cluster: ottla.Cluster, topic: str, *names: str) -> None:
    """Check that exactly these transactions are visible, and each completely. The last markers may be written with a delay."""
    expected = sorted(f"{name}-{index}".encode() for name in names for index in range(PARTITIONS))
    wait_until(lambda: len(cluster.records(topic)) >= len(expected), PATIENCE_S)
    assert sorted(record.value or b"" for record in cluster.records(topic)) == expected


@pytest.mark.parametrize("way", ["kill", "pause"])
def test_transaction_of_a_failed_coordinator_is_committed_by_the_next_coordinator(
    cluster: ottla.Cluster, topic: str, way: str
) -> None:
    producer = begun(cluster, topic)
    first = cluster.coordinator(transactional_id=topic)
    (cluster.kill if way == "kill" else cluster.pause)(first)
    producer.commit_transaction(PATIENCE_S)
    assert cluster.coordinator(transactional_id=topic) != first
    producer.begin_transaction()
    write(producer, topic, "second")
    producer.commit_transaction(PATIENCE_S)
    cluster.heal()
    check_committed(cluster, topic, "first", "second")


def test_pending_offsets_are_committed_by_the_next_group_coordinator(cluster: ottla.Cluster, topic: str) -> None:
    producer = begun(cluster, topic)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], consumer.consumer_group_metadata(), PATIENCE_S)
    first = cluster.coordinator(group=topic)
    cluster.kill(first)
    producer.commit_transaction(PATIENCE_S)
    (offset,) = committed_offsets(consumer, [TopicPartition(topic, 0)], PATIENCE_S)
    assert offset.offset == 7
    assert cluster.coordinator(group=topic) != first
    consumer.close()
    cluster.heal()
    check_committed(cluster, topic, "first")


def test_resumed_former_transaction_coordinator_is_fenced(cluster: ottla.Cluster, topic: str) -> None:
    """The former coordinator is frozen beyond its session timeout, while the next coordinator initializes the transactional id."""
    begun(cluster, topic)
    first = cluster.coordinator(transactional_id=topic)
    cluster.pause(first)
    taker = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "socket.timeout.ms": SOCKET_MS})
    taker.init_transactions(PATIENCE_S)
    taker.begin_transaction()
    write(taker, topic, "second")
    cluster.resume(first)
    taker.commit_transaction(PATIENCE_S)
    cluster.heal()
    check_committed(cluster, topic, "second")
