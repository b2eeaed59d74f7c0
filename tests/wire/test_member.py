"""An ottla broker with Apache Kafka's controller: stock clients, administration, and restarts of broker and controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from ottla import Broker
from ottla.broker.loop.env import random_uuid
from ottla.protocol.uuids import uuid_text
from ottla.storage.identity import DirectoryIdentity, write_identity
from ottla.storage.real_filesystem import RealFilesystem
from tests.support import oracle
from tests.wire.clients import Client
from tests.wire.conftest import read
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

BROKER, CONTROLLER = 7, 3000
PATIENCE_S = 60.0

Unique = Callable[[str], str]
Closing = Callable[[Any], Any]


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        heap="512M",
        node_id=CONTROLLER,
        is_controller=True,
        settings={"broker.session.timeout.ms": "6000"},
    )
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield kafka
    kafka.stop()


@pytest.fixture(scope="module")
def member(controller: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    path: Path = tmp_path_factory.mktemp("ottla") / "data"
    path.mkdir()
    directory_id = uuid_text(random_uuid())
    write_identity(
        RealFilesystem(), str(path), DirectoryIdentity(cluster_id=controller.cluster_id, node_id=BROKER, directory_id=directory_id)
    )
    host, port = controller.controller
    settings = {
        "process.roles": "broker",
        "node.id": BROKER,
        "controller.quorum.bootstrap.servers": f"{host}:{port}",
        "controller.listener.names": "CONTROLLER",
        "broker.session.timeout.ms": 6_000,
        "broker.heartbeat.interval.ms": 500,
    }
    with Broker(data_dir=path, settings=settings) as broker:
        yield broker
        assert not [line for line in broker.logs if '"level": "error"' in line]


@pytest.fixture
def admin(member: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": member.bootstrap, "log_level": 0})


def known_topics(admin: AdminClient) -> dict[str, int]:
    """Return the topics that the broker knows, with their number of partitions."""
    return {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=PATIENCE_S).topics.items()}


def done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(PATIENCE_S)


def values(messages: list[Any]) -> list[bytes]:
    return [m.value for m in messages]


def test_records_of_an_auto_created_topic_can_be_read_from_a_broker_under_kafkas_controller(
    client: Client, member: Broker, unique: Unique, closing: Closing
) -> None:
    topic = unique("plain")
    producer = closing(client.producer(member.bootstrap))
    for i in range(50):
        producer.send(topic, b"%d" % i)
    producer.flush()
    consumer = closing(client.consumer(member.bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 50)) == [b"%d" % i for i in range(50)]


def test_broker_under_kafkas_controller_commits_transactions_with_records_and_offsets(
    client: Client, member: Broker, unique: Unique, closing: Closing
) -> None:
    source, target, group = unique("in"), unique("out"), unique("g")
    feeder = closing(client.producer(member.bootstrap))
    for i in range(6):
        feeder.send(source, b"%d" % i, partition=0)
    feeder.flush()
    consumer = closing(client.consumer(member.bootstrap, [source], group=group))
    read(consumer, 6)
    producer = closing(client.producer(member.bootstrap, transactional_id=unique("id")))
    producer.init()
    for end in ("abort", "commit"):
        producer.begin()
        producer.send(target, end.encode(), partition=0)
        producer.flush()
        producer.send_offsets(consumer)
        getattr(producer, end)()
    reader = closing(client.consumer(member.bootstrap, [target], group=unique("g")))
    assert values(read(reader, 1)) == [b"commit"]
    assert consumer.committed(source, 0) == 6


def test_broker_forwards_admin_requests_to_kafkas_controller(admin: AdminClient, member: Broker, unique: Unique) -> None:
    topic = unique("t")
    done(admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "77777"})]))
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        done(admin.create_topics([NewTopic(topic, 2, 1)]))
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        done(admin.create_topics([NewTopic(unique("t"), 1, 2)]))
    done(admin.create_partitions([NewPartitions(topic, 3)]))
    oracle.wait_for(f"{topic!r} has 3 partitions", lambda: known_topics(admin).get(topic), (3).__eq__)
    described = admin.list_topics(timeout=PATIENCE_S)
    assert {p.leader for p in described.topics[topic].partitions.values()} == {BROKER}
    assert list(described.brokers) == [BROKER]

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry("max.message.bytes", "12345", incremental_operation=AlterConfigOpType.SET))
    done(admin.incremental_alter_configs([resource]))

    def configs() -> dict[str, str]:
        (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in future.result(PATIENCE_S).items()}

    oracle.wait_for("max.message.bytes is 12345", lambda: configs()["max.message.bytes"], "12345".__eq__)
    assert configs()["retention.ms"] == "77777"
    done(admin.delete_topics([topic]))
    oracle.wait_for(f"{topic!r} is deleted", lambda: known_topics(admin), lambda known: topic not in known)


@pytest.mark.parametrize("is_killed", [False, True])
def test_restarted_broker_under_kafkas_controller_has_its_records_and_transactions(
    client: Client, member: Broker, unique: Unique, closing: Closing, is_killed: bool
) -> None:
    topic, transactional_id = unique("kept"), unique("id")
    producer = closing(client.producer(member.bootstrap, transactional_id=transactional_id))
    producer.init()
    producer.begin()
    producer.send(topic, b"before")
    producer.flush()
    producer.commit()
    member.kill() if is_killed else member.stop()
    member.start()
    producer.begin()
    producer.send(topic, b"after")
    producer.flush()
    producer.commit()
    consumer = closing(client.consumer(member.bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 2)) == [b"before", b"after"]


def test_broker_survives_a_restart_of_kafkas_controller(
    controller: ApacheKafka, admin: AdminClient, member: Broker, unique: Unique, closing: Closing
) -> None:
    from tests.wire.clients.confluent import Confluent

    topic = unique("steady")
    done(admin.create_topics([NewTopic(topic, 1, 1)]))
    producer = closing(Confluent().producer(member.bootstrap))
    producer.send(topic, b"before")
    producer.flush()
    controller.kill()
    producer.send(topic, b"meanwhile")
    producer.flush()
    controller.start()
    another = unique("t")

    def is_made() -> bool:
        try:
            done(admin.create_topics([NewTopic(another, 1, 1)]))
        except KafkaException:
            return another in known_topics(admin)
        return True

    oracle.wait_for(f"the controller creates {another!r}", is_made)
    consumer = closing(Confluent().consumer(member.bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 2)) == [b"before", b"meanwhile"]


def test_broker_with_a_new_directory_id_leads_its_partitions_again(
    admin: AdminClient, member: Broker, controller: ApacheKafka, unique: Unique, closing: Closing
) -> None:
    """The broker reports its replicas' new directory to the controller (KIP-858), which can then elect it."""
    from tests.wire.clients.confluent import Confluent

    topic = unique("moved")
    done(admin.create_topics([NewTopic(topic, 1, 1)]))
    producer = closing(Confluent().producer(member.bootstrap))
    producer.send(topic, b"before")
    producer.flush()
    member.stop()
    identity = DirectoryIdentity(cluster_id=controller.cluster_id, node_id=BROKER, directory_id=uuid_text(random_uuid()))
    write_identity(RealFilesystem(), str(member.data_dir), identity)
    member.start()

    def is_elected() -> bool:
        """Elect leaders of all partitions: internal topics of earlier tests have no leader either. Returns whether all are led."""
        admin.elect_leaders(ElectionType.UNCLEAN, None).result(PATIENCE_S)
        return all(p.leader == BROKER for t in admin.list_topics(timeout=60).topics.values() for p in t.partitions.values())

    oracle.wait_until("the broker leads every partition", is_elected)
    producer.send(topic, b"after")
    producer.flush()
    consumer = closing(Confluent().consumer(member.bootstrap, [topic], group=unique("g")))
    assert values(read(consumer, 2)) == [b"before", b"after"]
