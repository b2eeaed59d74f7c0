"""MirrorMaker 2 copies topics, consumer groups and configs from one broker to another exactly once, although it is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ottla import Broker
from tests.support.waiting import wait_until
from tests.wire.instances import Instance
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.full]

TOPIC, MIRRORED, GROUP = "orders", "source.orders", "billing"
RECORDS = 300
"""Number of records written before MirrorMaker is killed, and number written afterwards."""
TIMEOUT_S = 120
PROPERTIES = """
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}
source->target.enabled = true
target->source.enabled = false
source->target.topics = {topic}
source->target.groups = {group}
target.exactly.once.source.support = enabled
tasks.max = 1
sync.topic.acls.enabled = true
sync.topic.configs.enabled = true
sync.group.offsets.enabled = true
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.topic.acls.interval.seconds = 1
offset.lag.max = 0
offset.flush.interval.ms = 500
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        yield source, target
        for broker in (source, target):
            assert not [line for line in broker.logs if '"level": "error"' in line]


@pytest.fixture
def properties(tmp_path: Path, brokers: tuple[Broker, Broker]) -> Path:
    source, target = brokers
    path = tmp_path / "mirror.properties"
    path.write_text(PROPERTIES.format(source=source.bootstrap, target=target.bootstrap, topic=TOPIC, group=GROUP))
    return path


def started(properties: Path, name: str) -> Instance:
    try:
        jars = kafka.jars("mirror", kafka.TOOLS_VERSION)
    except kafka.Unavailable as missing:
        pytest.skip(f"MirrorMaker: {missing}")
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]
    command = [kafka.java(), *options, "-cp", jars, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
    return Instance(command, properties.with_name(f"{name}.log"))


def write(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0


def commit_all(bootstrap: str) -> None:
    """Commit the end offsets, like a group that has read everything."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(TOPIC, partition, RECORDS) for partition in range(2)], asynchronous=False)
    consumer.close()


def mirrored(bootstrap: str) -> list[int]:
    """Return the committed records of the mirrored topic, by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "isolation.level": "read_committed"})
    values = []
    for partition in range(2):
        where = TopicPartition(MIRRORED, partition, 0)
        end = consumer.get_watermark_offsets(where, timeout=60)[1]
        consumer.assign([where])
        # The end offset includes transaction markers: the position advances past them without a record.
        while end and consumer.position([where])[0].offset < end:
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None
                values.append(int(message.value()))
    consumer.close()
    return values


def group_offsets(admin: AdminClient) -> list[int]:
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(MIRRORED, partition) for partition in range(2)])
    (future,) = admin.list_consumer_group_offsets([asked]).values()
    return [where.offset for where in future.result().topic_partitions]


def retention_ms(admin: AdminClient) -> str | None:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, MIRRORED)]).values()
    value: str | None = future.result()["retention.ms"].value
    return value


def test_mirrormaker_copies_topic_group_and_configs_exactly_once_despite_a_kill(
    brokers: tuple[Broker, Broker], properties: Path
) -> None:
    source, target = brokers
    maker = AdminClient({"bootstrap.servers": source.bootstrap})
    maker.create_topics([NewTopic(TOPIC, 2, config={"retention.ms": "12345678"})])[TOPIC].result()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    write(source.bootstrap, 0, RECORDS)
    mirror = started(properties, "first")
    try:
        wait_until(lambda: MIRRORED in admin.list_topics(timeout=60).topics, TIMEOUT_S)
        wait_until(lambda: len(mirrored(target.bootstrap)) >= RECORDS // 2, TIMEOUT_S)
        mirror.kill()
        write(source.bootstrap, RECORDS, RECORDS)
        mirror = started(properties, "second")
        wait_until(lambda: len(mirrored(target.bootstrap)) >= 2 * RECORDS, TIMEOUT_S)
        assert sorted(mirrored(target.bootstrap)) == list(range(2 * RECORDS)), "each record is mirrored once"
        commit_all(source.bootstrap)
        # The offsets are not exact: markers also have offsets, and MirrorMaker translates to an earlier offset rather than skip a
        # record.
        wait_until(lambda: all(offset > 0 for offset in group_offsets(admin)), TIMEOUT_S)
        wait_until(lambda: retention_ms(admin) == "12345678", TIMEOUT_S)
    finally:
        mirror.kill()
