"""Slightly wrong requests about topics: responses equal Apache Kafka's, and a refused request changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest
from ottla.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.primitives import NO_UUID
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

NO_ID = b"\x11" * 16


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start()
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> SimulatedClient:
    client = broker.connect()
    asked = [
        CreatableTopic(name="a", num_partitions=1, replication_factor=1),
        CreatableTopic(name="b", num_partitions=1, replication_factor=1),
    ]
    assert {t.error_code for t in client.call(CreateTopicsRequest(topics=asked, timeout_ms=1000)).topics} == {0}
    return client


def deleted(client: SimulatedClient, *topics: tuple[str | None, bytes], version: int = 6) -> list[tuple[Any, ...]]:
    names = [name for name, _ in topics if name is not None]
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics], topic_names=names, timeout_ms=1000
    )
    return [(r.name, r.error_code, r.error_message) for r in client.call(request, version).responses]


@pytest.mark.parametrize("version", [1, 5, 6])
def test_delete_topics_refuses_a_duplicate_topic_name(broker: SimulatedBroker, client: SimulatedClient, version: int) -> None:
    message = "Duplicate topic name." if version >= 5 else None
    expected = [("a", Code.INVALID_REQUEST, message), ("b", 0, None)]
    assert deleted(client, ("a", NO_UUID), ("b", NO_UUID), ("a", NO_UUID), version=version) == expected
    assert set(broker.broker.cluster.state.topics) == {"a"}


def test_delete_topics_refuses_a_duplicate_topic_id(broker: SimulatedBroker, client: SimulatedClient) -> None:
    topic_id = broker.broker.cluster.state.topics["a"].topic_id
    assert deleted(client, (None, topic_id), (None, topic_id)) == [(None, Code.INVALID_REQUEST, "Duplicate topic id.")]
    assert "a" in broker.broker.cluster.state.topics


def test_delete_topics_needs_either_a_name_or_an_id(client: SimulatedClient) -> None:
    neither = (None, Code.INVALID_REQUEST, "Neither topic name nor id were specified.")
    assert deleted(client, (None, NO_UUID), (None, NO_UUID)) == [neither, neither]
    both = ("a", Code.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    assert deleted(client, ("a", NO_ID)) == [both]


def test_delete_topics_errors_have_kafkas_messages(client: SimulatedClient) -> None:
    no_topic = ("none", Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    no_id = (None, Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    assert deleted(client, ("none", NO_UUID), (None, NO_ID)) == [no_topic, no_id]


def test_create_partitions_refuses_a_duplicate_topic(broker: SimulatedBroker, client: SimulatedClient) -> None:
    asked = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in (("a", 2), ("b", 2), ("a", 3))]
    answers = client.call(CreatePartitionsRequest(topics=asked, timeout_ms=1000, validate_only=False)).results
    assert [(r.name, r.error_code) for r in answers] == [("a", Code.INVALID_REQUEST), ("b", 0)]
    assert broker.broker.cluster.state.topics["a"].partition_count == 1


def test_records_of_internal_topics_are_not_deleted(client: SimulatedClient) -> None:
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    asked = [DeleteRecordsTopic(name="__consumer_offsets", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])]
    answer = client.call(DeleteRecordsRequest(topics=asked, timeout_ms=1000)).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (Code.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(0, Code.UNSUPPORTED_ENDPOINT_TYPE), (2, Code.MISMATCHED_ENDPOINT_TYPE), (1, Code.NONE)]
)
def test_describe_cluster_refuses_endpoint_types_other_than_broker(client: SimulatedClient, endpoint_type: int, code: Code) -> None:
    answer = client.call(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (answer.error_code, answer.endpoint_type) == (code, 1)


@pytest.mark.parametrize(("epoch", "expected"), [(-1, (-1, -1)), (0, (0, 0)), (1, (-1, -1))])
def test_current_leader_epoch_of_an_empty_partition_ends_at_the_log_end_offset(
    client: SimulatedClient, epoch: int, expected: tuple[int, int]
) -> None:
    # A consumer treats an end offset of -1 as data loss: it resets its position, or fails if it has no reset policy.
    asked = [
        OffsetForLeaderTopic(
            topic="a", partitions=[OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)]
        )
    ]
    answer = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=asked)).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, *expected)


def test_describe_producers_refuses_unknown_partitions(client: SimulatedClient) -> None:
    """As in Kafka, the name is checked first. An unknown topic gets an error message; an unknown partition gets none."""
    asked = [
        ProducersTopic(name="a", partition_indexes=[0, 7]),
        ProducersTopic(name="none", partition_indexes=[0]),
        ProducersTopic(name="a b", partition_indexes=[0]),
        ProducersTopic(name="", partition_indexes=[0]),
    ]
    answer = client.call(DescribeProducersRequest(asked), 0)
    assert [(p.error_code, p.error_message) for t in answer.topics for p in t.partitions] == [
        (0, None),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, None),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (
            Code.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (Code.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
    ]


def test_write_txn_markers_response_omits_a_marker_without_partitions(client: SimulatedClient) -> None:
    topics = [WritableTxnMarkerTopic(name="a", partition_indexes=[0])]
    markers = [
        WritableTxnMarker(producer_id=5, producer_epoch=0, transaction_result=True, topics=[]),
        WritableTxnMarker(producer_id=6, producer_epoch=0, transaction_result=True, topics=topics),
    ]
    answer = client.call(WriteTxnMarkersRequest(markers), 1)
    assert [marker.producer_id for marker in answer.markers] == [6]


def test_add_partitions_to_txn_refuses_to_verify_unknown_partitions(client: SimulatedClient) -> None:
    def verified(transactional_id: str, *topics: AddPartitionsToTxnTopic) -> list[int]:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id, producer_id=5, producer_epoch=0, verify_only=True, topics=list(topics)
        )
        (answer,) = client.call(AddPartitionsToTxnRequest([asked]), 5).results_by_transaction
        return [p.partition_error_code for t in answer.topic_results for p in t.results_by_partition]

    there, missing = AddPartitionsToTxnTopic(name="a", partitions=[0]), AddPartitionsToTxnTopic(name="a", partitions=[7])
    for transactional_id in ("x", ""):
        assert verified(transactional_id, missing, there) == [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.OPERATION_NOT_ATTEMPTED]
    assert verified("", there) == [Code.INVALID_REQUEST]


def test_write_txn_markers_reports_an_unknown_partition_before_an_invalid_producer_id(client: SimulatedClient) -> None:
    marker = WritableTxnMarker(
        producer_id=-1,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="a", partition_indexes=[0, 7])],
    )
    (answer,) = client.call(WriteTxnMarkersRequest([marker]), 1).markers
    codes = [p.error_code for p in answer.topics[0].partitions]
    assert codes == [Code.UNKNOWN_SERVER_ERROR, Code.UNKNOWN_TOPIC_OR_PARTITION]
