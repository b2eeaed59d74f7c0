"""A large request of a client without any permission blocks the event loop no longer than an allowed request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.handlers.registry import declaration
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.simulation.client import api_key
from tests.broker.handlers.authorised_broker import AUTHORIZER, grant, may
from tests.broker.holds import LOOP_HELD, MeasuredBroker
from tests.broker.large_requests import LINES, MANY, REQUESTS
from tests.support.counting import Meter, check_best

MANY_TOPICS = 50_000


@pytest.fixture
def broker(meter: Meter) -> Iterator[MeasuredBroker]:
    broker = MeasuredBroker(meter, {"authorizer.class.name": AUTHORIZER})
    broker.start()
    broker.with_coordinators()
    yield broker
    broker.stop()
    assert broker.bugs == 0


@pytest.mark.parametrize("name", REQUESTS)
def test_denied_request_with_many_elements_blocks_the_event_loop_briefly(broker: MeasuredBroker, name: str) -> None:
    many = broker.meter.size(MANY)

    def attempt(number: int) -> None:
        request, version = REQUESTS[name](number, many)
        assert declaration(api_key(request)).codec
        with broker.connect() as client:
            broker.meter.longest = 0.0
            client.call(request, version)

    check_best(broker.meter, LOOP_HELD.with_lines(LINES.get(name, LOOP_HELD.lines)), attempt)


def alter(names: list[str]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name, partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)]
            )
            for name in names
        ],
    )


def delete(names: list[str]) -> DeleteShareGroupOffsetsRequest:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    return DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)


def test_offset_for_leader_epoch_of_many_denied_topics_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    topics = [
        OffsetForLeaderTopic(topic=f"t{index}", partitions=[OffsetForLeaderPartition()])
        for index in range(broker.meter.size(MANY_TOPICS))
    ]

    def attempt(_: int) -> None:
        with broker.connect() as client:
            broker.meter.longest = 0.0
            answers = client.call(OffsetForLeaderEpochRequest(topics=topics), 4).topics
        assert [topic.topic for topic in answers] == [topic.topic for topic in topics]

    check_best(broker.meter, LOOP_HELD, attempt)


@pytest.mark.parametrize("request_of", [alter, delete])
def test_share_offsets_of_many_denied_topics_block_the_event_loop_briefly(
    broker: MeasuredBroker, request_of: Callable[[list[str]], Any]
) -> None:
    """The client may use the group, but none of the topics that it names."""
    grant(broker, may("GROUP", "g", "ALL"), may("TOPIC", "readable", "READ"))
    names = [f"t{index}" for index in range(broker.meter.size(MANY_TOPICS))]
    with broker.connect() as client:
        broker.broker.cluster.create_topic("readable", 1, {})
        assert client.call(alter(["readable"])).error_code == Code.NONE

    def attempt(_: int) -> None:
        with broker.connect() as client:
            broker.meter.longest = 0.0
            responses = client.call(request_of(names)).responses
        assert [topic.topic_name for topic in responses] == names

    check_best(broker.meter, LOOP_HELD, attempt)
