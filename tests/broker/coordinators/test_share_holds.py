"""The largest share group requests block the event loop only briefly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.handlers.support.share_acknowledgements import MAX_TYPES
from ottla.coordinator.group.named_topics import MAX_MEMBER_TOPICS
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.records import GZIP, build_batch
from ottla.simulation.env import START_MS
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.coordinators.test_dead_letters import COPIES, DEAD_LETTERS, GROUP, TOPIC, alter, append
from tests.broker.holds import LOOP_HELD, MeasuredBroker
from tests.broker.share_world import ACCEPT, REJECT, RELEASE, Sharer, produce, set_group
from tests.support.counting import Limit, Meter, check_best

pytestmark = pytest.mark.full

MANY = 10_000
AT_LEAST = 3_000
"""Minimum number of elements: fewer would be handled in a single step."""
PARTITIONS = 200
JOIN_OF_MANY_TOPICS = LOOP_HELD.with_lines(250_000)
"""Limit of a heartbeat with the maximum number of topics, which one step handles."""


@pytest.fixture
def broker(meter: Meter) -> Iterator[MeasuredBroker]:
    broker = MeasuredBroker(meter)
    broker.start()
    broker.broker.cluster.ensure_internal(OFFSETS_TOPIC)
    with broker.connect() as client:
        make_topic(client, "t", PARTITIONS)
        set_group(client, auto_offset_reset="earliest")
    yield broker
    broker.close()
    assert broker.bugs == 0


def check_held(broker: MeasuredBroker, ask: Callable[[int], Any], limit: Limit = LOOP_HELD) -> None:
    """Send a request a few times. Raises AssertionError if every attempt blocks the event loop longer than `limit`."""

    def once(attempt: int) -> None:
        request = ask(attempt)
        with broker.connect() as client:
            broker.meter.longest = 0.0
            client.call(request)

    check_best(broker.meter, limit, once)


LONG = "x" * 32_767
REQUESTS: dict[str, Callable[[int, int], Any]] = {
    "a heartbeat of many topics": lambda n, many: ShareGroupHeartbeatRequest(
        group_id=f"g{n}", member_id="m", member_epoch=0, subscribed_topic_names=[f"t{i}" for i in range(MAX_MEMBER_TOPICS)]
    ),
    "a heartbeat of many partitions": lambda n, many: ShareGroupHeartbeatRequest(
        group_id=f"g{n}", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    ),
    "describe many groups": lambda n, many: ShareGroupDescribeRequest(group_ids=[f"g{i}" for i in range(many)]),
    "offsets of many partitions": lambda n, many: DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(
                group_id="g", topics=[DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=list(range(many)))]
            )
        ]
    ),
    "offsets of many partitions of a group with a long name": lambda n, many: DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(
                group_id=LONG, topics=[DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=list(range(PARTITIONS)))]
            )
        ]
    ),
    "offsets of many topics without partitions": lambda n, many: DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(
                group_id="g", topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=f"t{i}", partitions=[]) for i in range(many)]
            )
        ]
    ),
    "alter many partitions": lambda n, many: AlterShareGroupOffsetsRequest(
        group_id=f"g{n}",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name="t",
                partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=i, start_offset=0) for i in range(many)],
            )
        ],
    ),
    "delete many topics": lambda n, many: DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=f"t{i}") for i in range(many)]
    ),
    "fetch many partitions that are not there": lambda n, many: ShareFetchRequest(
        group_id="g",
        member_id=f"m{n}",
        max_bytes=1 << 20,
        max_records=500,
        topics=[FetchTopic(topic_id=b"\1" * 16, partitions=[FetchPartition(partition_index=i) for i in range(many)])],
    ),
    "acknowledge in no session": lambda n, many: ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=[AcknowledgeTopic(topic_id=b"\1" * 16, partitions=[AcknowledgePartition(partition_index=i) for i in range(many)])],
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_share_group_requests_with_many_elements_block_the_event_loop_briefly(broker: MeasuredBroker, name: str) -> None:
    many = max(AT_LEAST, broker.meter.size(MANY))
    limit = JOIN_OF_MANY_TOPICS if name == "a heartbeat of many topics" else LOOP_HELD
    check_held(broker, lambda n: REQUESTS[name](n, many), limit)


def test_share_offset_deletion_of_many_unknown_topics_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    member = Sharer(broker, "m").joined()
    member.beat(member_epoch=-1)
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=f"t{i}") for i in range(max(AT_LEAST, broker.meter.size(MANY)))]

    def delete(_: int) -> DeleteShareGroupOffsetsRequest:
        return DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)

    check_held(broker, delete)
    with broker.connect() as client:
        assert {topic.error_code for topic in client.call(delete(0)).responses} == {Code.UNKNOWN_TOPIC_OR_PARTITION}


def test_share_fetch_of_many_partitions_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    Sharer(broker, "m").joined()

    def fetch(n: int) -> ShareFetchRequest:
        sharer = Sharer(broker, f"m{n}", partitions=range(PARTITIONS))
        return sharer.fetch_request(max_wait_ms=1_000)

    check_held(broker, fetch)


def test_acknowledging_records_one_by_one_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    """Each record is in a batch of its own and is acknowledged with another type than the previous record."""
    a, count = Sharer(broker, "a").joined(), broker.meter.size(2_000)
    with broker.connect() as client:
        for _ in range(count):
            produce(client, 1)

    a.acquire(max_records=count, batch_size=1)
    types = [ACCEPT if offset % 2 else RELEASE for offset in range(count)]
    said = AcknowledgementBatch(first_offset=0, last_offset=count - 1, acknowledge_types=types)
    topic = AcknowledgeTopic(topic_id=a.topic_id, partitions=[AcknowledgePartition(acknowledgement_batches=[said])])
    (answer,) = broker.measure(lambda: a.acknowledge(topics=[topic]).responses, replace(LOOP_HELD, ms=100))
    assert answer.partitions[0].error_code == Code.NONE


def test_disconnect_of_a_share_member_with_many_partitions_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    Sharer(broker, "m").joined()
    with broker.connect() as client:
        for partition in range(PARTITIONS):
            produce(client, 1, partition=partition)

    def gone(attempt: int) -> None:
        sharer = Sharer(broker, f"m{attempt}", partitions=range(PARTITIONS))
        answer = sharer.fetch()
        assert sum(len(data.acquired_records) for topic in answer.responses for data in topic.partitions) == PARTITIONS
        broker.meter.longest = 0.0
        sharer.client.close()
        broker.sleep(100)

    check_best(broker.meter, LOOP_HELD, gone)


def test_share_acknowledgement_with_too_many_types_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    a = Sharer(broker, "a").joined()
    a.fetch()
    said = AcknowledgementBatch(first_offset=0, last_offset=MAX_TYPES, acknowledge_types=[ACCEPT] * (MAX_TYPES + 1))
    topic = AcknowledgeTopic(topic_id=a.topic_id, partitions=[AcknowledgePartition(acknowledgement_batches=[said])])
    (answer,) = broker.measure(lambda: a.acknowledge(topics=[topic]).responses)
    assert answer.partitions[0].error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(("count", "value_bytes"), [(100, 200_000), (20, 900_000), (2_000, 100)])
@pytest.mark.parametrize("compression", [0, GZIP])
def test_large_dead_letter_copies_block_the_event_loop_briefly(
    broker: MeasuredBroker, count: int, value_bytes: int, compression: int
) -> None:
    """All records are in one batch, which is small with compression."""
    with broker.connect() as client:
        make_topic(client, "dlq.g", 1)
        alter(client, TOPIC, "dlq.g", errors_deadletterqueue_group_enable="true")
        alter(client, TOPIC, "t", max_message_bytes=str(64 << 20))
        alter(client, GROUP, "g", **{DEAD_LETTERS: "dlq.g", COPIES: "true"})
        append(client, build_batch([(None, bytes(value_bytes))] * count, START_MS, compression=compression))
    a = Sharer(broker, "a").joined()
    assert a.acquire(max_records=count, batch_size=count) == [(0, count - 1, 1)]
    broker.measure(lambda: (a.acknowledge((0, count - 1, REJECT)), broker.sleep(1_000)))
    assert broker.broker.partitions.get("dlq.g", 0).log.log_end_offset == count
