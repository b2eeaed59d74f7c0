"""Consumer groups (KIP-848) with the stock clients that support them: joining, sharing partitions, kills, and transactions."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from tests.wire.clients import WireConsumer
from tests.wire.conftest import stock_client

pytestmark = pytest.mark.wire

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.session.timeout.ms": "1000",
}
PARTITIONS = 4
LONELY_MEMBER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[3], "group.protocol": "consumer"})
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""

Unique = Callable[[str], str]
Closing = Callable[[Any], Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker
        assert not [line for line in broker.logs if "work_failed" in line]


@pytest.fixture(params=["confluent-kafka", "java"])
def client(request: pytest.FixtureRequest) -> Any:
    return stock_client(request.param, "consumer")


def made(bootstrap: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
    return name


@pytest.fixture
def topic(broker: Broker, unique: Unique) -> str:
    return made(broker.bootstrap, unique("kip848"))


def until(holds: Callable[[], bool], *polled: WireConsumer, timeout_s: float = 60) -> list[bytes | None]:
    """Poll the consumers until `holds()` is true. Returns the values that they have read."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, [c.assignment() for c in polled]
        for consumer in polled:
            values += [m.value for m in consumer.poll(0.1)]
    return values


def sizes(*consumers: WireConsumer) -> list[int]:
    return [len(c.assignment()) for c in consumers]


@pytest.mark.smoke
def test_members_of_a_consumer_group_join_share_partitions_and_leave(
    broker: Broker, client: Any, topic: str, unique: Unique, closing: Closing
) -> None:
    group = unique("g")
    producer = closing(client.producer(broker.bootstrap))
    for at in range(40):
        producer.send(topic, b"%d" % at, partition=at % PARTITIONS)
    producer.flush()
    first = closing(client.consumer(broker.bootstrap, [topic], group=group))
    values: list[bytes | None] = []
    values += until(lambda: sizes(first) == [4], first)
    while len(values) < 40:
        values += [m.value for m in first.poll(0.2)]
    first.commit()
    second = client.consumer(broker.bootstrap, [topic], group=group)
    values += until(lambda: sizes(first, second) == [2, 2], first, second)
    assert not first.assignment() & second.assignment()
    assert sorted(values) == sorted(b"%d" % at for at in range(40)), "each record is read once"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    described = admin.describe_consumer_groups([group])[group].result()
    assert (described.state, described.type, len(described.members)) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER, 2)
    assert [first.committed(topic, at) for at in range(PARTITIONS)] == [10, 10, 10, 10]
    second.close()
    until(lambda: sizes(first) == [4], first)


def test_consumer_is_assigned_the_new_partitions_of_its_topic(
    broker: Broker, client: Any, topic: str, unique: Unique, closing: Closing
) -> None:
    from confluent_kafka.admin import NewPartitions

    consumer = closing(client.consumer(broker.bootstrap, [topic], group=unique("g")))
    until(lambda: sizes(consumer) == [4], consumer)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result()
    until(lambda: sizes(consumer) == [6], consumer)


def test_regular_expression_subscription_gets_matching_topics(broker: Broker, unique: Unique, closing: Closing) -> None:
    """With librdkafka, the broker matches topic names with the expression."""
    stem = unique("regex")
    made(broker.bootstrap, f"{stem}-a")
    consumer = closing(stock_client("confluent-kafka", "consumer").consumer(broker.bootstrap, [f"^{stem}-.*"], group=unique("g")))
    until(lambda: sizes(consumer) == [4], consumer)
    made(broker.bootstrap, f"{stem}-b")
    until(lambda: sizes(consumer) == [8], consumer)


def test_partitions_of_a_killed_group_member_are_reassigned(
    broker: Broker, client: Any, topic: str, unique: Unique, closing: Closing
) -> None:
    group = unique("g")
    command = [sys.executable, "-c", LONELY_MEMBER, broker.bootstrap, topic, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            while other.stdout.readline().strip() != "4":
                assert other.poll() is None
            consumer = closing(client.consumer(broker.bootstrap, [topic], group=group))
            until(lambda: sizes(consumer) == [2], consumer)
        finally:
            other.kill()
    until(lambda: sizes(consumer) == [4], consumer)


def test_consumer_group_survives_a_killed_broker(client: Any, unique: Unique) -> None:
    with Broker(settings=SETTINGS) as broker:
        topic = made(broker.bootstrap, unique("kip848"))
        consumers = [client.consumer(broker.bootstrap, [topic], group="g") for _ in range(2)]
        until(lambda: sizes(*consumers) == [2, 2], *consumers)
        before = [c.assignment() for c in consumers]
        broker.restart(kill=True)
        producer = client.producer(broker.bootstrap)
        for at in range(PARTITIONS):
            producer.send(topic, b"%d" % at, partition=at)
        producer.flush()
        values: list[bytes | None] = []
        while len(values) < PARTITIONS:
            values += [m.value for c in consumers for m in c.poll(0.2)]
        assert [c.assignment() for c in consumers] == before, "members and assignments are restored from the log"
        for closable in (*consumers, producer):
            closable.close()


@pytest.mark.parametrize("commits", [True, False])
def test_consumer_group_offsets_are_committed_in_a_transaction(
    broker: Broker, client: Any, topic: str, unique: Unique, closing: Closing, commits: bool
) -> None:
    group = unique("g")
    producer = closing(client.producer(broker.bootstrap, transactional_id=unique("txn")))
    producer.init()
    producer.begin()
    producer.send(topic, b"in", partition=0)
    producer.commit()
    consumer = closing(client.consumer(broker.bootstrap, [topic], group=group))
    values: list[bytes | None] = []
    while not values:
        values += [m.value for m in consumer.poll(0.2)]
    producer.begin()
    producer.send(topic, b"out", partition=1)
    producer.send_offsets(consumer, {(topic, 0): 1})
    if commits:
        producer.commit()
    else:
        producer.abort()
    assert consumer.committed(topic, 0) == (1 if commits else None)


def test_group_migrates_member_by_member_to_the_consumer_protocol_and_back(
    broker: Broker, client: Any, topic: str, unique: Unique, closing: Closing
) -> None:
    """Each member stops and rejoins with the other protocol (KIP-848). No record is lost, and committed offsets are kept."""
    group = unique("g")
    producer = closing(client.producer(broker.bootstrap))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    sent: list[bytes] = []
    read: list[bytes | None] = []

    def made_with(protocol: str) -> Any:
        return stock_client(client.name, protocol).consumer(broker.bootstrap, [topic], group=group)

    def round_of(members: list[Any], kind: ConsumerGroupType) -> None:
        """Wait until each member has two partitions, then write a record to every partition, and read and commit all of them."""
        read.extend(until(lambda: sizes(*members) == [2, 2], *members, timeout_s=60))
        for at in range(PARTITIONS):
            sent.append(b"%d" % len(sent))
            producer.send(topic, sent[-1], partition=at)
        producer.flush()
        deadline = time.monotonic() + 60
        while not set(read) >= set(sent):
            assert time.monotonic() < deadline, f"records {set(sent) - set(read)} were not read"
            read.extend(m.value for member in members for m in member.poll(0.1))
        for member in members:
            member.commit()
        assert admin.describe_consumer_groups([group])[group].result().type is kind

    members = [made_with("classic"), made_with("classic")]
    round_of(members, ConsumerGroupType.CLASSIC)
    for protocol, kinds in (
        ("consumer", (ConsumerGroupType.CONSUMER, ConsumerGroupType.CONSUMER)),
        ("classic", (ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC)),
    ):
        for at, kind in enumerate(kinds):
            members[at].close()
            members[at] = made_with(protocol)
            round_of(members, kind)
    numbers = sorted(int(value or b"-1") for value in read)
    assert numbers == list(range(len(sent))), "each record is read once, because members commit before they stop"
    assert sum(members[0].committed(topic, at) or 0 for at in range(PARTITIONS)) == len(sent)
    for member in members:
        member.close()
