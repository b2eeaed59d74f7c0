"""An ottla broker beside an Apache Kafka broker, under Apache Kafka's controller: each replicates from the other."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.storage.identity import Identity, write_identity
from ottla.storage.real_filesystem import RealFilesystem
from tools.kafka import QUICK_JVM, ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.slow, pytest.mark.java]

OTTLA, KAFKA, CONTROLLER = 7, 2, 3000
PATIENCE_S = 60.0
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
}


class Neighbours:
    """The controller and the two brokers."""

    def __init__(self, directory: Path) -> None:
        self.controller = ApacheKafka(
            directory / "controller", jvm=QUICK_JVM, heap="512M", node_id=CONTROLLER, is_controller=True, settings=SETTINGS
        )
        self.controller.start()
        host, port = self.controller.controller
        self.kafka = ApacheKafka(
            directory / "kafka",
            jvm=QUICK_JVM,
            heap="512M",
            node_id=KAFKA,
            under=(self.controller.cluster_id, f"{CONTROLLER}@{host}:{port}"),
            settings=SETTINGS,
        )
        path = directory / "ottla"
        path.mkdir()
        directory_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "a")
        identity = Identity(cluster_id=self.controller.cluster_id, node_id=OTTLA, directory_id=directory_id)
        write_identity(RealFilesystem(), str(path), identity)
        member = {
            "process.roles": "broker",
            "node.id": OTTLA,
            "controller.quorum.bootstrap.servers": f"{host}:{port}",
            "controller.listener.names": "CONTROLLER",
        }
        self.ottla = Broker(data_dir=path, settings={**SETTINGS, **member})

    def start(self) -> None:
        self.kafka.start()
        self.ottla.start()

    def stop(self) -> None:
        self.ottla.stop()
        self.kafka.stop()
        self.controller.stop()

    @property
    def bootstrap(self) -> str:
        return f"{self.ottla.bootstrap},{self.kafka.bootstrap}"

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def partitions(self, topic: str) -> dict[int, Any]:
        return dict(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def in_sync(self, topic: str) -> bool:
        return all(sorted(p.isrs) == [KAFKA, OTTLA] for p in self.partitions(topic).values())

    def create(self, topic: str, partitions: int) -> None:
        admin = self.admin
        for future in admin.create_topics([NewTopic(topic, partitions, 2)]).values():
            future.result(PATIENCE_S)
        until(lambda: self.in_sync(topic))


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
    try:
        made = Neighbours(tmp_path_factory.mktemp("neighbours"))
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield made
    made.stop()
    assert not [line for line in made.ottla.logs if '"level": "error"' in line]


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if condition():
                return
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def produce(bootstrap: str, topic: str, values: list[bytes], partitions: int) -> None:
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for at, value in enumerate(values):
        producer.produce(topic, value, partition=at % partitions, on_delivery=lambda e, _: e and refused.append(e))
    assert producer.flush(PATIENCE_S) == 0
    assert not refused


def read(bootstrap: str, topic: str, partitions: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "earliest", "log_level": 0})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values, deadline_s = [], time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_each_replicates_from_the_other(neighbours: Neighbours) -> None:
    neighbours.create("both", 4)
    leaders = {p.leader for p in neighbours.partitions("both").values()}
    assert leaders == {KAFKA, OTTLA}
    first, second, third = ([b"%d-%d" % (n, i) for i in range(200)] for n in range(3))
    produce(neighbours.bootstrap, "both", first, 4)

    neighbours.ottla.kill()
    until(lambda: {p.leader for p in neighbours.partitions("both").values()} == {KAFKA})
    produce(neighbours.kafka.bootstrap, "both", second, 4)
    assert sorted(read(neighbours.kafka.bootstrap, "both", 4, 400)) == sorted(first + second)
    neighbours.ottla.start()
    until(lambda: neighbours.in_sync("both"))

    neighbours.kafka.kill()
    until(lambda: {p.leader for p in neighbours.partitions("both").values()} == {OTTLA})
    produce(neighbours.ottla.bootstrap, "both", third, 4)
    assert sorted(read(neighbours.ottla.bootstrap, "both", 4, 600)) == sorted(first + second + third)
    neighbours.kafka.start()
    until(lambda: neighbours.in_sync("both"))
