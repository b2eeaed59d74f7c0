"""Consume, transform, produce: instances of an application join, leave, freeze and die during transactions.

Each client's own program (`pipes`, `franz_go`) copies records and commits their offsets in the same transaction. Whatever happens
to the instances, each input record is in the output exactly once, and records with the same key are in order.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.wire.instances import Instance
from tools import go, java_programs, kafka

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long]

HERE = Path(__file__).parent
PARTITIONS = 6
KEYS = 18
RECORDS = 900
"""Records per phase: a program needs several seconds to copy this many."""
TIMEOUT_S = 300
SETTINGS = {
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def command(client: str) -> list[str]:
    """Return the command of an instance; skips the test if the client is not available."""
    try:
        if client == "java":
            program = HERE / "pipes" / "Pipe.java"
            return java_programs.command(program, kafka.jars("clients"), "-Xmx128m", "-XX:TieredStopAtLevel=1")
        if client == "franz-go":
            return [str(go.built(HERE / "franz_go"))]
    except kafka.Unavailable as missing:
        pytest.skip(f"{client}: {missing}")
    return [sys.executable, str(HERE / "pipes" / "pipe.py")]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an ottla broker, or of an Apache Kafka broker with ``ORACLE=1``."""
    if os.environ.get("ORACLE"):
        with kafka.ApacheKafka(tmp_path_factory.mktemp("oracle"), settings=SETTINGS) as apache:
            yield apache.bootstrap
        return
    with Broker(settings=SETTINGS) as broker:
        yield broker.bootstrap
        assert not [line for line in broker.logs if '"level": "error"' in line]


class Feed:
    """Writes numbered records. All records of a key are in one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self.sent = 0

    def send(self) -> None:
        for number in range(self.sent, self.sent + RECORDS):
            key = number % KEYS
            self._producer.produce(self._topic, b"%d" % number, b"%d" % key, partition=key % PARTITIONS)
        self.sent += RECORDS
        assert self._producer.flush(TIMEOUT_S) == 0


class Output:
    """The records that read_committed consumers get, in order and by key."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "output", "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.by_key: dict[int, list[int]] = {}

    def count(self) -> int:
        for message in self._consumer.consume(500, 0.1):
            assert message.error() is None
            self.by_key.setdefault(int(message.key()), []).append(int(message.value()))
        return sum(map(len, self.by_key.values()))

    def close(self) -> None:
        self._consumer.close()


class Group:
    """A group as an administrator sees it."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._name = name

    def wait_until_stable(self, members: int) -> None:
        """Wait until the group is stable with this number of members, and all partitions are assigned, at least one to each
        member."""
        oracle.wait_for(
            f"group {self._name!r} is stable with {members} members",
            self._state,
            lambda seen: (
                seen[0] == ConsumerGroupState.STABLE and len(seen[1]) == members and 0 not in seen[1] and sum(seen[1]) == PARTITIONS
            ),
            limit_s=TIMEOUT_S,
        )

    def _state(self) -> tuple[ConsumerGroupState | None, list[int]]:
        """Return the state of the group, and the number of partitions of each member."""
        try:
            described = self._admin.describe_consumer_groups([self._name])[self._name].result()
        except KafkaException as error:
            # FindCoordinator of Apache Kafka returns a coordinator that may still be loading.
            assert error.args[0].code() in oracle.NOT_READY, error
            return None, []
        return described.state, [len(member.assignment.topic_partitions) for member in described.members]


def freeze_inside_a_transaction(bootstrap: str, instance: Instance, transactional_id: str) -> None:
    def is_frozen() -> bool:
        instance.freeze()
        (state,) = client.call(DescribeTransactionsRequest([transactional_id])).transaction_states
        if state.transaction_state == "Ongoing" and state.topics:
            return True
        instance.thaw()
        return False

    with RawClient(bootstrap) as client:
        oracle.wait_for("the instance is frozen inside a transaction", is_frozen, at=bootstrap, limit_s=TIMEOUT_S)


@pytest.mark.entry("PIP-06", "PIP-11")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("client", ["java", "confluent-kafka", pytest.param("franz-go", marks=pytest.mark.nightly)])
def test_consume_transform_produce_application_copies_each_record_once_while_instances_fail(
    bootstrap: str, unique: Callable[[str], str], closing: Callable[[Any], Any], tmp_path: Path, client: str, protocol: str
) -> None:
    start, source, target, name = command(client), unique("in"), unique("out"), unique("pipe")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (source, target)]).values():
        made.result()
    numbers = itertools.count()

    def started(transactional_id: str) -> Instance:
        arguments = [bootstrap, protocol, name, transactional_id, source, target]
        instance: Instance = closing(Instance([*start, *arguments], tmp_path / f"{transactional_id}-{next(numbers)}.txt"))
        return instance

    feed, output, group = Feed(bootstrap, source), closing(Output(bootstrap, target)), Group(bootstrap, name)
    a, b = f"{name}-a", f"{name}-b"
    feed.send()
    first, second = started(a), started(b)
    group.wait_until_stable(2)
    feed.send()
    third = started(f"{name}-c")
    group.wait_until_stable(3)

    feed.send()
    freeze_inside_a_transaction(bootstrap, first, a)
    first.kill()
    group.wait_until_stable(2)

    feed.send()
    freeze_inside_a_transaction(bootstrap, second, b)
    group.wait_until_stable(1)
    feed.send()
    second.thaw()
    first = started(a)
    group.wait_until_stable(3)

    feed.send()
    third.close()
    assert third.says("closed")
    group.wait_until_stable(2)
    oracle.wait_for("all records were copied", output.count, lambda count: count >= feed.sent, limit_s=TIMEOUT_S)
    for instance in (first, second):
        instance.close()
        assert instance.says("closed")
    assert output.count() == feed.sent
    assert Counter(itertools.chain(*output.by_key.values())) == Counter(range(feed.sent))
    for key, numbers_seen in output.by_key.items():
        assert numbers_seen == list(range(key, feed.sent, KEYS)), key
