"""A running cluster of ottla, including its controller, is replaced by Apache Kafka while a transactional producer continues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.testing.cluster_handle import CONTROLLER
from ottla.testing.cluster_queries import Questions
from tests.support import oracle
from tests.support.raw_client import RawClient
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

KAFKA = 7
PARTITIONS = 3
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # Apache Kafka loads a coordinator only if its topic has as many partitions as its own setting says.
    "transaction.state.log.num.partitions": "3",
}
PATIENCE_S = oracle.LIMIT_S
NAMES = 12
"""Version of the test's Metadata requests."""


class Orders:
    """A producer that commits transactions of one record each, one after another, until the test stops it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "orders", "log_level": 2})
        self._is_over = threading.Event()
        self.committed: list[bytes] = []
        self.failures: list[Exception] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self._go_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join(PATIENCE_S)

    def _go_on(self) -> None:
        try:
            self._producer.init_transactions(PATIENCE_S)
            while not self._is_over.wait(0.01):
                value = b"%d" % len(self.committed)
                self._producer.begin_transaction()
                self._producer.produce(self._topic, value, partition=len(self.committed) % PARTITIONS)
                self._producer.commit_transaction(PATIENCE_S)
                self.committed.append(value)
        except Exception as error:
            self.failures.append(error)

    def wait_for_more(self, count: int = 20) -> None:
        """Wait until `count` further transactions are committed."""
        before = len(self.committed)
        oracle.wait_for(
            f"{before + count} transactions are committed",
            lambda: (len(self.committed), self.failures),
            lambda seen: seen[0] >= before + count or bool(seen[1]),
        )
        assert not self.failures


def everything(client: RawClient) -> MetadataResponse:
    answer: MetadataResponse = client.call(MetadataRequest(topics=None), NAMES)
    return answer


def elsewhere(client: RawClient) -> list[tuple[str | None, int, list[int], int]]:
    """Return the partitions with a replica or a leader on another broker than Apache Kafka."""
    partitions = [(topic.name, partition) for topic in everything(client).topics for partition in topic.partitions]
    placed = [(name, p.partition_index, p.replica_nodes, p.leader_id) for name, p in partitions]
    return [partition for partition in placed if partition[2:] != ([KAFKA], KAFKA)]


def move_everything(client: RawClient) -> None:
    topics = [
        ReassignableTopic(
            name=topic.name or "",
            partitions=[ReassignablePartition(partition_index=p.partition_index, replicas=[KAFKA]) for p in topic.partitions],
        )
        for topic in everything(client).topics
    ]
    answer = client.call(AlterPartitionReassignmentsRequest(topics=topics), 1)
    codes = {partition.error_code for topic in answer.responses for partition in topic.partitions}
    assert (answer.error_code, codes) == (Code.NONE, {Code.NONE})


def made_topic(bootstrap: str) -> bool:
    """Whether a topic could be created. A request that a broker forwards to the previous controller is lost, so callers retry."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic("later", 1, 1)], request_timeout=5)
    try:
        created["later"].result(10)
    except KafkaException as error:
        return bool(error.args[0].code() == Code.TOPIC_ALREADY_EXISTS)
    except TimeoutError:
        return False
    return True


def test_cluster_is_moved_to_apache_kafka_while_clients_lose_no_records(tmp_path: Path) -> None:
    with ottla.Cluster(2, settings=SETTINGS, data_dir=tmp_path / "cluster") as cluster:
        broker = ApacheKafka(
            tmp_path / "kafka",
            heap="512M",
            node_id=KAFKA,
            under=(cluster.cluster_id, cluster.quorum_voters),
            settings={**SETTINGS, "broker.heartbeat.interval.ms": "500"},
        )
        controller = ApacheKafka(
            tmp_path / "controller",
            heap="256M",
            node_id=CONTROLLER,
            is_controller=True,
            log_dir=tmp_path / "cluster" / "controller",
            controller_port=int(cluster.quorum_voters.rpartition(":")[2]),
        )
        try:
            broker.start()
        except Unavailable as missing:
            pytest.skip(f"Apache Kafka: {missing}")
        cluster.create_topic("orders", PARTITIONS, replication_factor=2)
        orders = Orders(f"{cluster.bootstrap},{broker.bootstrap}", "orders")
        try:
            with orders.going_on(), RawClient(broker.bootstrap) as client:
                orders.wait_for_more()
                move_everything(client)
                oracle.wait_for(
                    "all partitions have been moved", lambda: elsewhere(client), lambda left: not left, at=broker.bootstrap
                )
                for former in cluster.brokers:
                    cluster.shut_down(former)
                orders.wait_for_more()
                cluster.shut_down(CONTROLLER)
                orders.wait_for_more()
                controller.start()
                oracle.wait_for("the controller creates a topic", lambda: made_topic(broker.bootstrap), at=broker.bootstrap)
                orders.wait_for_more()
            assert not orders.failures
            records = Questions(lambda: broker.bootstrap).records("orders")
            assert sorted(record.value or b"" for record in records) == sorted(orders.committed)
        finally:
            broker.kill()
            controller.kill()
