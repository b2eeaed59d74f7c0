"""One Apache Kafka broker and two ottla brokers with ottla's controller: they replicate in both directions, and leaders move."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla.broker.loop.env import random_uuid
from ottla.brokers.plan import format_directory
from ottla.storage.real_filesystem import RealFilesystem
from tests.support import oracle
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

KAFKA = 7
SETTINGS = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
PATIENCE_S = oracle.LIMIT_S


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(2, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka(cluster: ottla.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        heap="512M",
        node_id=KAFKA,
        under=(cluster.cluster_id, cluster.quorum_voters),
        settings={"broker.heartbeat.interval.ms": "500"},
    )
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield kafka
    kafka.stop()


class Story:
    """A topic with one partition that is replicated to all three brokers, and the records written to it."""

    def __init__(self, cluster: ottla.Cluster, kafka: ApacheKafka) -> None:
        self.cluster = cluster
        self.kafka = kafka
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.written: list[bytes] = []
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        asked = NewTopic(self.topic, 1, replica_assignment=[[1, KAFKA, 2]], config={"min.insync.replicas": "2"})
        admin.create_topics([asked])[self.topic].result(PATIENCE_S)
        oracle.led_by(cluster, self.topic, [1])

    def write(self, value: str) -> None:
        """Write a record with acks=all, and wait for the acknowledgement."""
        failures = []
        addresses = f"{self.cluster.bootstrap},{self.kafka.bootstrap}"
        producer = Producer({"bootstrap.servers": addresses, "acks": "all", "message.timeout.ms": 60_000})
        producer.produce(self.topic, value, on_delivery=lambda error, _: error and failures.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert not failures
        self.written.append(value.encode())

    def wait_in_sync(self, *brokers: int) -> None:
        oracle.in_sync(self.cluster, self.topic, brokers)

    def check(self) -> None:
        assert [record.value for record in self.cluster.records(self.topic)] == self.written


def test_partition_leadership_moves_between_ottla_and_kafka_in_both_directions(cluster: ottla.Cluster, kafka: ApacheKafka) -> None:
    story = Story(cluster, kafka)
    for leader in (1, KAFKA, 2, KAFKA, 1):
        if cluster.leader(story.topic) != leader:
            cluster.move_leader(story.topic, 0, leader)
        story.write(f"{leader} leads")
        story.wait_in_sync(1, 2, KAFKA)
    story.check()


def test_ottla_and_kafka_brokers_each_serve_while_the_others_are_down(cluster: ottla.Cluster, kafka: ApacheKafka) -> None:
    story = Story(cluster, kafka)
    story.write("all are there")
    cluster.kill(1)
    oracle.led_by(cluster, story.topic, [KAFKA])
    story.write("Apache Kafka leads after ottla")
    cluster.restart(1)
    story.wait_in_sync(1, 2, KAFKA)
    kafka.kill()
    oracle.led_by(cluster, story.topic, [1, 2])
    story.write("ottla leads after Apache Kafka")
    kafka.start()
    story.wait_in_sync(1, 2, KAFKA)
    cluster.move_leader(story.topic, 0, KAFKA)
    story.write("Apache Kafka has it all")
    story.check()


def test_ottla_and_kafka_brokers_lead_partitions_again_on_a_new_disk(cluster: ottla.Cluster, kafka: ApacheKafka) -> None:
    """Brokers of both kinds report their replicas' new directories to the controller (AssignReplicasToDirs, KIP-858)."""
    story = Story(cluster, kafka)
    story.write("first")
    kafka.kill()
    cluster.wait_for(lambda: KAFKA not in cluster.in_sync(story.topic), PATIENCE_S)
    shutil.rmtree(kafka.log_dir)
    kafka.start()
    cluster.kill(1)
    cluster.wait_for(lambda: 1 not in cluster.in_sync(story.topic), PATIENCE_S)
    directory = cluster.data_dir / "broker-1"
    shutil.rmtree(directory)
    format_directory(RealFilesystem(), str(directory), 1, random_uuid, cluster.cluster_id)
    cluster.restart(1)
    for leader in (KAFKA, 1):
        story.wait_in_sync(1, 2, KAFKA)
        if cluster.leader(story.topic) != leader:
            cluster.move_leader(story.topic, 0, leader)
        story.write(f"{leader} leads")
    story.check()
