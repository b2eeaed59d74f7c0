"""Transactions on Apache Kafka and ottla brokers with ottla's controller. Both kinds of broker have coordinators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from tests.support import oracle
from tests.wire.clients.confluent import committed_offsets
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

KAFKA = 7
INTERNAL = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.min.isr": "2",
}
PATIENCE_S = oracle.LIMIT_S


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(2, settings=INTERNAL) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka(cluster: ottla.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        heap="512M",
        node_id=KAFKA,
        under=(cluster.cluster_id, cluster.quorum_voters),
        settings={"broker.heartbeat.interval.ms": "500", **INTERNAL},
    )
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield kafka
    kafka.stop()


def test_transactions_and_offsets_span_ottla_and_kafka_brokers(cluster: ottla.Cluster, kafka: ApacheKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic = NewTopic("spanning", 3, replica_assignment=[[1, KAFKA, 2], [KAFKA, 2, 1], [2, 1, KAFKA]])
    admin.create_topics([topic])["spanning"].result(PATIENCE_S)
    for partition, leader in enumerate((1, KAFKA, 2)):
        oracle.led_by(cluster, "spanning", [leader], partition)
    addresses = f"{cluster.bootstrap},{kafka.bootstrap}"
    committed: list[bytes] = []
    coordinators: set[int] = set()
    # Eight ids are enough that every broker coordinates at least one, whichever brokers lead the internal topics' partitions.
    for number in range(8):
        name = f"id-{number}"
        coordinators |= {cluster.coordinator(transactional_id=name), cluster.coordinator(group=name)}
        consumer = Consumer({"bootstrap.servers": addresses, "group.id": name})
        producer = Producer({"bootstrap.servers": addresses, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for turn in range(4):
            values = [f"{number} {turn} {index}".encode() for index in range(3)]
            producer.begin_transaction()
            for index, value in enumerate(values):
                producer.produce("spanning", value, partition=index)
            position = [TopicPartition("spanning", 0, turn)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), PATIENCE_S)
            if turn % 2:
                producer.commit_transaction(PATIENCE_S)
                committed += values
            else:
                producer.abort_transaction(PATIENCE_S)
        assert [at.offset for at in committed_offsets(consumer, [TopicPartition("spanning", 0)], PATIENCE_S)] == [3]
        consumer.close()
    assert coordinators == {1, 2, KAFKA}
    expected = Counter(committed)
    oracle.wait_for(
        "exactly the committed records are readable",
        lambda: Counter(record.value for record in cluster.records("spanning")),
        expected.__eq__,
        at=cluster.bootstrap,
    )
