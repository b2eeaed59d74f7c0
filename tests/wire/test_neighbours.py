"""An ottla broker and an Apache Kafka broker with Apache Kafka's controller: each replicates from the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.broker.loop.env import random_uuid
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.uuids import uuid_text
from ottla.storage.identity import DirectoryIdentity, write_identity
from ottla.storage.real_filesystem import RealFilesystem
from tests.support import oracle
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

OTTLA, KAFKA, CONTROLLER = 7, 2, 3000
PATIENCE_S = 60.0
SETTINGS = {
    # Session timeout that is longer than a busy machine may delay a broker's heartbeats.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
}


class Neighbours:
    """The Apache Kafka controller and the two brokers."""

    def __init__(self, directory: Path) -> None:
        self.controller = ApacheKafka(
            directory / "controller", heap="512M", node_id=CONTROLLER, is_controller=True, settings=SETTINGS
        )
        self.controller.start()
        host, port = self.controller.controller
        self.kafka = ApacheKafka(
            directory / "kafka",
            heap="512M",
            node_id=KAFKA,
            under=(self.controller.cluster_id, f"{CONTROLLER}@{host}:{port}"),
            settings=SETTINGS,
        )
        path = directory / "ottla"
        path.mkdir()
        directory_id = uuid_text(random_uuid())
        identity = DirectoryIdentity(cluster_id=self.controller.cluster_id, node_id=OTTLA, directory_id=directory_id)
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

    def partitions(self, topic: str) -> dict[int, Any]:
        return partitions(self.bootstrap, topic)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until both brokers are in sync for each partition of the topic."""
        oracle.wait_for(
            f"all partitions of {topic!r} are in sync on {[KAFKA, OTTLA]}",
            lambda: {index: sorted(p.isrs) for index, p in self.partitions(topic).items()},
            lambda in_sync: all(brokers == [KAFKA, OTTLA] for brokers in in_sync.values()),
            at=self.bootstrap,
            not_yet=KafkaException,
        )

    def create(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(topic, partitions, 2)]).values():
            future.result(PATIENCE_S)
        self.wait_in_sync(topic)

    def balance(self, topic: str) -> None:
        """Elect the preferred leader of each partition, which the controller does only minutes after a restart."""
        self.wait_in_sync(topic)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        everything = [TopicPartition(topic, index) for index in self.partitions(topic)]
        admin.elect_leaders(ElectionType.PREFERRED, everything).result(PATIENCE_S)
        wait_led_by(self.bootstrap, topic, {KAFKA, OTTLA})


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
    try:
        made = Neighbours(tmp_path_factory.mktemp("neighbours"))
        made.start()
        make_internal_topics(made)
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield made
    made.stop()
    assert not [line for line in made.ottla.logs if '"level": "error"' in line]


def partitions(bootstrap: str, topic: str) -> dict[int, Any]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return dict(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)


def wait_led_by(bootstrap: str, topic: str, brokers: set[int]) -> None:
    """Wait until exactly these brokers lead the topic's partitions."""
    condition = f"the leaders of {topic!r} are {brokers}"
    oracle.wait_for(
        condition,
        lambda: {p.leader for p in partitions(bootstrap, topic).values()},
        brokers.__eq__,
        at=bootstrap,
        not_yet=KafkaException,
    )


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


def test_ottla_and_kafka_brokers_replicate_from_each_other(neighbours: Neighbours) -> None:
    neighbours.create("both", 4)
    leaders = {p.leader for p in neighbours.partitions("both").values()}
    assert leaders == {KAFKA, OTTLA}
    first, second, third = ([b"%d-%d" % (n, i) for i in range(200)] for n in range(3))
    produce(neighbours.bootstrap, "both", first, 4)

    neighbours.ottla.kill()
    wait_led_by(neighbours.bootstrap, "both", {KAFKA})
    produce(neighbours.kafka.bootstrap, "both", second, 4)
    assert sorted(read(neighbours.kafka.bootstrap, "both", 4, 400)) == sorted(first + second)
    neighbours.ottla.start()
    neighbours.wait_in_sync("both")

    neighbours.kafka.kill()
    wait_led_by(neighbours.bootstrap, "both", {OTTLA})
    produce(neighbours.ottla.bootstrap, "both", third, 4)
    assert sorted(read(neighbours.ottla.bootstrap, "both", 4, 600)) == sorted(first + second + third)
    neighbours.kafka.start()
    neighbours.wait_in_sync("both")


class Load:
    """A producer that writes continuously in a thread and records which writes were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[Any] = []
        # A frozen broker does not respond, so requests must time out.
        settings = {"enable.idempotence": True, "linger.ms": 2, "request.timeout.ms": 3_000, "socket.timeout.ms": 3_000}
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
        self._topic, self._partitions = topic, partitions
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0

    def _run(self) -> None:
        at = 0
        while not self._is_over.wait(0.002):
            self._producer.produce(self._topic, b"%d" % at, partition=at % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0)
            at += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.refused.append(error)

    def wait_for(self, more: int) -> None:
        wanted = len(self.acknowledged) + more
        oracle.wait_for(f"{wanted} records are acknowledged", lambda: len(self.acknowledged), lambda count: count >= wanted)


def test_restart_of_ottla_and_kafka_brokers_loses_and_duplicates_no_records(neighbours: Neighbours) -> None:
    """Both brokers are restarted, and the ottla broker is frozen beyond its session, so that it resumes as a former leader."""
    neighbours.create("load", 4)
    with Load(neighbours.bootstrap, "load", 4) as load:
        load.wait_for(200)
        neighbours.ottla.stop()
        load.wait_for(200)
        neighbours.ottla.start()
        neighbours.wait_in_sync("load")
        neighbours.kafka.stop()
        load.wait_for(200)
        neighbours.kafka.start()
        neighbours.wait_in_sync("load")
        neighbours.ottla.pause()
        wait_led_by(neighbours.kafka.bootstrap, "load", {KAFKA})
        load.wait_for(200)
        neighbours.ottla.resume()
        neighbours.wait_in_sync("load")
        load.wait_for(200)
    assert not load.refused
    for bootstrap in (neighbours.ottla.bootstrap, neighbours.kafka.bootstrap):
        assert sorted(read(bootstrap, "load", 4, len(load.acknowledged))) == sorted(load.acknowledged)


def coordinator(neighbours: Neighbours, topic: str, key: str) -> int:
    """Return the broker that leads the key's partition in a coordinator's topic."""
    led = partitions(neighbours.bootstrap, topic)
    leader: int = led[partition_for(key, len(led))].leader
    return leader


def make_internal_topics(neighbours: Neighbours) -> None:
    """Create the internal topics while both brokers are up. Otherwise one broker would be preferred for all partitions."""
    transactional(neighbours, "the first one")
    consumer = Consumer({"bootstrap.servers": neighbours.bootstrap, "group.id": "the first one", "log_level": 0})
    consumer.subscribe(["no such topic"])
    consumer.poll(2.0)
    consumer.close()
    for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC):
        neighbours.wait_in_sync(topic)


def key_of(neighbours: Neighbours, topic: str, broker: int, stem: str) -> str:
    """Return a key whose coordinator is on this broker now."""
    return next(f"{stem}-{n}" for n in range(1_000) if coordinator(neighbours, topic, f"{stem}-{n}") == broker)


def transactional(neighbours: Neighbours, transactional_id: str) -> Producer:
    settings = {"transaction.timeout.ms": 30_000, "request.timeout.ms": 3_000, "socket.timeout.ms": 3_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": neighbours.bootstrap, "transactional.id": transactional_id, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def write_all(producer: Producer, topic: str, text: str, *, commit: bool) -> list[bytes]:
    """Write a transaction with one record in each of four partitions. Returns the records that may be read afterwards."""
    producer.begin_transaction()
    values = [b"%s-%d" % (text.encode(), index) for index in range(4)]
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index)
    if not commit:
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)
        return []
    producer.commit_transaction(PATIENCE_S)
    return values


@pytest.mark.parametrize("broker", [OTTLA, KAFKA], ids=["coordinated by ottla", "coordinated by Apache Kafka"])
def test_transaction_spans_partitions_of_ottla_and_kafka_brokers(neighbours: Neighbours, broker: int) -> None:
    topic = f"spanned-{broker}"
    neighbours.create(topic, 4)
    assert {p.leader for p in neighbours.partitions(topic).values()} == {KAFKA, OTTLA}
    neighbours.balance(TRANSACTION_TOPIC)
    producer = transactional(neighbours, key_of(neighbours, TRANSACTION_TOPIC, broker, topic))
    expected: list[bytes] = []
    for n in range(10):
        expected += write_all(producer, topic, f"{n}", commit=n % 3 != 2)
    for bootstrap in (neighbours.ottla.bootstrap, neighbours.kafka.bootstrap):
        assert sorted(read(bootstrap, topic, 4, len(expected))) == sorted(expected)


@pytest.mark.parametrize("broker", [OTTLA, KAFKA], ids=["ottla is killed", "Apache Kafka is killed"])
def test_transaction_continues_when_its_coordinator_moves_between_ottla_and_kafka(neighbours: Neighbours, broker: int) -> None:
    topic = f"handed-{broker}"
    neighbours.create(topic, 4)
    neighbours.balance(TRANSACTION_TOPIC)
    transactional_id = key_of(neighbours, TRANSACTION_TOPIC, broker, topic)
    producer = transactional(neighbours, transactional_id)
    expected = write_all(producer, topic, "before", commit=True)
    producer.begin_transaction()
    for index in range(4):
        producer.produce(topic, b"open-%d" % index, partition=index)
    producer.flush(PATIENCE_S)
    killed = neighbours.ottla if broker == OTTLA else neighbours.kafka
    killed.kill()
    producer.commit_transaction(PATIENCE_S)
    expected += [b"open-%d" % index for index in range(4)]
    expected += write_all(producer, topic, "after", commit=True)
    killed.start()
    neighbours.wait_in_sync(topic)
    for bootstrap in (neighbours.ottla.bootstrap, neighbours.kafka.bootstrap):
        assert sorted(read(bootstrap, topic, 4, len(expected))) == sorted(expected)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("broker", [OTTLA, KAFKA], ids=["ottla is killed", "Apache Kafka is killed"])
def test_consumer_group_continues_when_its_coordinator_moves_between_ottla_and_kafka(
    neighbours: Neighbours, broker: int, protocol: str
) -> None:
    topic = f"grouped-{protocol}-{broker}"
    neighbours.create(topic, 4)
    first, second = ([b"%d-%d" % (n, i) for i in range(40)] for n in range(2))
    produce(neighbours.bootstrap, topic, first, 4)

    def member(group: str) -> Consumer:
        own = {"session.timeout.ms": 10_000} if protocol == "classic" else {}
        times = {"socket.timeout.ms": 3_000, "reconnect.backoff.max.ms": 300, "log_level": 0}
        settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        made = Consumer({"bootstrap.servers": neighbours.bootstrap, **settings, **times, **own})
        made.subscribe([topic])
        return made

    def take(consumer: Consumer, count: int) -> list[bytes]:
        values, deadline_s = [], time.monotonic() + PATIENCE_S
        while len(values) < count and time.monotonic() < deadline_s:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        return values

    neighbours.balance(OFFSETS_TOPIC)
    consumer = member(key_of(neighbours, OFFSETS_TOPIC, broker, topic))
    assert sorted(take(consumer, 40)) == sorted(first)
    consumer.commit(asynchronous=False)
    killed = neighbours.ottla if broker == OTTLA else neighbours.kafka
    killed.kill()
    produce(neighbours.bootstrap, topic, second, 4)
    assert sorted(take(consumer, 40)) == sorted(second), "the group continues at its committed offsets"
    oracle.wait_for("the member has committed", lambda: committed(consumer))
    killed.start()
    neighbours.wait_in_sync(topic)
    neighbours.wait_in_sync(OFFSETS_TOPIC)
    consumer.close()


def committed(consumer: Consumer) -> bool:
    consumer.commit(asynchronous=False)
    return True
