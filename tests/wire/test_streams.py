"""A word count with Kafka Streams: several instances, exactly once, in a streams group (KIP-1071) and in a classic group."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.protocol.messages.list_groups import ListGroupsRequest
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.wire.instances import Instance
from tools import java_programs, kafka

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.full]

PROGRAM = Path(__file__).parent / "streams" / "WordCount.java"
PARTITIONS = 4
WORDS = ["once", "exactly", "and", "never", "twice", "lost", "again"]
LINES = 200
"""Number of lines in each phase: before an instance joins, before an instance is killed, and after the kill."""
TIMEOUT_S = 90
MOVING_S = 4
SETTINGS = {"group.streams.session.timeout.ms": "3000", "group.streams.min.session.timeout.ms": "1000"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker
        assert not [line for line in broker.logs if '"level": "error"' in line]


class Counting(Instance):
    def has_tasks(self) -> bool:
        return self.says("tasks ") and re.search("tasks [1-9]", self.output.read_text()) is not None


class Counts:
    """The counts of each word that read_committed consumers get, in order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counts", "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.by_word: dict[str, list[int]] = {}

    def are(self, expected: Counter[str]) -> bool:
        for message in self._consumer.consume(500, 0.2):
            assert message.error() is None
            self.by_word.setdefault(message.key().decode(), []).append(int.from_bytes(message.value()))
        return {word: counts[-1] for word, counts in self.by_word.items()} == expected

    def close(self) -> None:
        self._consumer.close()


class Feed:
    """Writes lines for the application, and counts the expected words."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._sent = 0
        self.expected: Counter[str] = Counter()

    def send(self, count: int = LINES) -> None:
        for number in range(self._sent, self._sent + count):
            words = [WORDS[number % len(WORDS)], WORDS[number * number % len(WORDS)]]
            self.expected.update(words)
            self._producer.produce(self._topic, " ".join(words).encode(), partition=number % PARTITIONS)
        self._sent += count
        assert self._producer.flush(60) == 0


def feed_for_a_while(feed: Feed, counts: Counts) -> None:
    """Keep writing lines while tasks move to another instance."""
    until = time.monotonic() + MOVING_S
    while time.monotonic() < until:
        feed.send(20)
        counts.are(feed.expected)


@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_kafka_streams_word_count_is_exact_while_instances_join_leave_and_are_killed(
    broker: Broker, unique: Callable[[str], str], closing: Callable[[Any], Any], tmp_path: Path, protocol: str
) -> None:
    try:
        jars = kafka.jars("streams", kafka.STREAMS_VERSION)
        java = java_programs.command(PROGRAM, jars, "-Xmx256m", "-XX:TieredStopAtLevel=1")
    except kafka.Unavailable as missing:
        pytest.skip(f"Kafka Streams: {missing}")
    application, source, output = unique("count"), unique("lines"), unique("counts")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (source, output)]).values():
        made.result()

    def started(name: str) -> Counting:
        arguments = [broker.bootstrap, application, protocol, str(tmp_path / name), source, output]
        instance: Counting = closing(Counting([*java, *arguments], tmp_path / f"{name}.txt"))
        return instance

    feed, counts = Feed(broker.bootstrap, source), closing(Counts(broker.bootstrap, output))
    feed.send()
    first = started("first")
    wait_until(lambda: counts.are(feed.expected), TIMEOUT_S)
    second = started("second")
    wait_until(second.has_tasks, TIMEOUT_S)
    with RawClient(broker.bootstrap) as client:
        types = {group.group_id: group.group_type for group in client.call(ListGroupsRequest()).groups}
    assert types[application] == protocol
    feed_for_a_while(feed, counts)
    wait_until(lambda: counts.are(feed.expected), TIMEOUT_S)
    feed.send()
    first.kill()
    feed.send()
    wait_until(lambda: counts.are(feed.expected), TIMEOUT_S)
    third = started("third")
    wait_until(third.has_tasks, TIMEOUT_S)
    feed.send()
    second.close()
    assert second.says("closed")
    feed_for_a_while(feed, counts)
    wait_until(lambda: counts.are(feed.expected), TIMEOUT_S)
    third.close()
    assert third.says("closed")
    for word, seen in counts.by_word.items():
        assert seen == sorted(set(seen)), f"a count of {word} is duplicated or out of order"
