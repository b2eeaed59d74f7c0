"""Numbers that no correct client sends: negative, or far beyond the log end. The responses are Apache Kafka 4.3.1's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS

LOWEST = -(2**31)


@pytest.fixture
def client() -> Iterator[SimulatedClient]:
    broker = SimulatedBroker().start()
    with broker.connect() as connected:
        connected.call(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(name="a", num_partitions=3, replication_factor=1),
                    CreatableTopic(name="b", num_partitions=2, replication_factor=1),
                ],
                timeout_ms=1000,
            ),
            7,
        )
        yield connected
    broker.close()
    assert broker.bugs == 0


def pages(
    client: SimulatedClient, topics: list[str], limit: int, cursor: tuple[str, int] | None
) -> tuple[list[tuple[int, str, list[int]]], tuple[str, int] | None]:
    after = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    answer = client.call(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name) for name in topics], response_partition_limit=limit, cursor=after)
    )
    answered = [(t.error_code, t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
    return answered, None if answer.next_cursor is None else (answer.next_cursor.topic_name, answer.next_cursor.partition_index)


@pytest.mark.parametrize("cursor", [("a", -1), ("a", LOWEST), ("b", -3), ("", -1)])
@pytest.mark.parametrize("limit", [2000, 2])
def test_negative_cursor_of_describe_topic_partitions_is_refused(
    client: SimulatedClient, cursor: tuple[str, int], limit: int
) -> None:
    refused = [(Code.INVALID_REQUEST, "a", []), (Code.INVALID_REQUEST, "b", [])]
    assert pages(client, ["a", "b"], limit, cursor) == (refused, None)
    assert pages(client, [], limit, cursor) == ([], None)


@pytest.mark.parametrize("cursor", [("aa", 1), ("zz", 0), ("", 0)])
def test_describe_topic_partitions_refuses_a_cursor_of_an_unrequested_topic(
    client: SimulatedClient, cursor: tuple[str, int]
) -> None:
    assert pages(client, ["a"], 2000, cursor) == ([(Code.INVALID_REQUEST, "a", [])], None)
    after = [(0, name, list(range(count))) for name, count in (("a", 3), ("b", 2)) if name >= cursor[0]]
    assert pages(client, [], 2000, cursor) == (after, None)


@pytest.mark.parametrize("index", [3, 99, 2**31 - 1])
def test_describe_topic_partitions_cursor_past_a_topic_continues_with_the_next(client: SimulatedClient, index: int) -> None:
    assert pages(client, ["a", "b"], 2, ("a", index)) == ([(0, "a", []), (0, "b", [0, 1])], None)


@pytest.mark.parametrize("limit", [1, 0, -1, LOWEST])
def test_describe_topic_partitions_returns_at_least_one_partition(client: SimulatedClient, limit: int) -> None:
    assert pages(client, ["a", "b"], limit, None) == ([(0, "a", [0])], ("a", 1))
    assert pages(client, ["a", "b"], limit, ("a", 2)) == ([(0, "a", [2])], ("b", 0))


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (-1, -1), (-5, 3)])
def test_transaction_marker_with_negative_producer_id_or_epoch_is_refused(
    client: SimulatedClient, producer_id: int, epoch: int
) -> None:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="a", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    answer = client.call(WriteTxnMarkersRequest([marker]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == Code.UNKNOWN_SERVER_ERROR
    batch = bytes(build_batch([(None, b"v")], START_MS))
    data = TopicProduceData("a", partition_data=[PartitionProduceData(index=0, records=batch)])
    assert (
        client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=-1, topic_data=[data]), 9)
        .responses[0]
        .partition_responses[0]
        .base_offset
        == 0
    )


@pytest.mark.parametrize(("epoch", "expected"), [(-1, (-1, -1)), (-2, (-2, 0)), (0, (0, 1)), (5, (-1, -1))])
def test_offset_for_leader_epoch_has_kafkas_response_to_unknown_epochs(
    client: SimulatedClient, epoch: int, expected: tuple[int, int]
) -> None:
    batch = bytes(build_batch([(None, b"v")], START_MS))
    client.call(
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=-1,
            topic_data=[TopicProduceData("a", partition_data=[PartitionProduceData(index=0, records=batch)])],
        ),
        9,
    )
    asked = [
        OffsetForLeaderTopic(
            topic="a", partitions=[OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)]
        )
    ]
    (answer,) = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=asked)).topics[0].partitions
    assert (answer.leader_epoch, answer.end_offset) == expected
