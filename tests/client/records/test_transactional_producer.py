"""Transactions of both versions: requests that add, write, commit and end, and the abort after a failed block."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import KafkaAnswered
from ottla.client.records.producing import TopicProducer
from ottla.client.records.record import NewRecord, encode_batch
from ottla.client.records.transactional_producer import FencedProducer, TransactionalProducer, transaction_of
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.records import read_header
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata


def added(code: int = 0) -> AddPartitionsToTxnResponse:
    partitions = [AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)]
    topics = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def produced(code: int = 0) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=0, error_code=code, base_offset=5)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


def offsets_committed(code: int = 0) -> TxnOffsetCommitResponse:
    partitions = [TxnOffsetCommitResponsePartition(partition_index=3, error_code=code)]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="in", partitions=partitions)])


def broker(**answers: Any) -> ScriptedBroker:
    scripted: dict[str, Any] = {
        "Metadata": [metadata(nodes={1: "kafka"}, leaders={"t": [1]})],
        "FindCoordinator": lambda request: FindCoordinatorResponse(
            coordinators=[Coordinator(key=request.coordinator_keys[0], node_id=1, host="kafka", port=9092)]
        ),
        "AddOffsetsToTxn": [AddOffsetsToTxnResponse()],
        "TxnOffsetCommit": [offsets_committed()],
        "InitProducerId": [InitProducerIdResponse(producer_id=7, producer_epoch=3)],
        "AddPartitionsToTxn": [added()],
        "Produce": [produced()],
        "EndTxn": [EndTxnResponse()],
    }
    return ScriptedBroker({**scripted, **answers})


def write(kafka: ScriptedBroker, *, commit: bool = True, batches: int = 1) -> TopicProducer:
    brokers = ScriptedCluster(kafka=kafka).brokers()
    with transaction_of(brokers, "id", commit=commit) as transaction:
        producer = TopicProducer(brokers, "t", lambda: 0, transaction)
        for _ in range(batches):
            producer.send(NewRecord(value=b"v"))
            producer.flush()
    return producer


def ends(kafka: ScriptedBroker) -> list[bool]:
    return [request.committed for name, _, request in kafka.asked if name == "EndTxn"]


@pytest.mark.parametrize("commit", [True, False])
def test_batches_of_a_transactional_producer_belong_to_its_transaction(commit: bool) -> None:
    kafka = broker()
    assert write(kafka, commit=commit, batches=2).last_offsets == {0: 5}
    requests = [request for name, _, request in kafka.asked if name == "Produce"]
    headers = [read_header(request.topic_data[0].partition_data[0].records) for request in requests]
    assert [(h.is_transactional, h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        (True, 7, 3, 0),
        (True, 7, 3, 1),
    ]
    assert {request.transactional_id for request in requests} == {"id"}
    assert kafka.names().count("AddPartitionsToTxn") == 1
    assert ends(kafka) == [commit]
    versions = {name: version for name, version, _ in kafka.asked}
    assert (versions["AddPartitionsToTxn"], versions["EndTxn"]) == (3, 4), "versions of clients of every transaction.version"


def test_failed_write_of_a_transactional_producer_aborts_the_transaction() -> None:
    kafka = broker(Produce=[produced(Code.MESSAGE_TOO_LARGE)])
    with pytest.raises(KafkaAnswered, match="MESSAGE_TOO_LARGE"):
        write(kafka)
    assert ends(kafka) == [False]


def test_transaction_whose_only_partition_is_refused_is_not_ended() -> None:
    kafka = broker(AddPartitionsToTxn=[added(Code.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(KafkaAnswered, match="TOPIC_AUTHORIZATION_FAILED"):
        write(kafka)
    assert ends(kafka) == []


def test_concurrent_transactions_error_is_retried_by_the_producer() -> None:
    kafka = broker(AddPartitionsToTxn=[added(Code.CONCURRENT_TRANSACTIONS), added()])
    write(kafka)
    assert kafka.names().count("AddPartitionsToTxn") == 2


def test_producer_without_a_transactional_id_begins_no_transaction() -> None:
    with transaction_of(ScriptedCluster(kafka=broker()).brokers(), None, commit=True) as transaction:
        assert transaction is None


def newest(level: int = 2) -> dict[str, Any]:
    """Return the responses of a broker whose clients use transaction.version ``level``."""
    api_versions = ScriptedBroker().api_versions(4)[0]
    feature = FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level)
    answer = ApiVersionsResponse(api_keys=api_versions.api_keys, finalized_features_epoch=1, finalized_features=[feature])
    return {"ApiVersions": [answer]}


def taken(kafka: ScriptedBroker) -> tuple[BrokerConnections, TransactionalProducer]:
    brokers = ScriptedCluster(kafka=kafka).brokers()
    return brokers, TransactionalProducer(brokers, "id", 5_000)


def batch(count: int = 1) -> bytes:
    return encode_batch([NewRecord(value=b"v")] * count, 0)


def sequences(kafka: ScriptedBroker) -> list[tuple[int, int, int]]:
    """Return producer id, epoch and base sequence of all sent batches."""
    requests = [request for name, _, request in kafka.asked if name == "Produce"]
    headers = [read_header(request.topic_data[0].partition_data[0].records) for request in requests]
    return [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers]


def test_producer_sends_no_add_requests_with_transaction_version_2() -> None:
    kafka = broker(**newest(), EndTxn=[EndTxnResponse(producer_id=7, producer_epoch=4)])
    brokers, producer = taken(kafka)
    for _ in range(2):
        with producer.transaction(brokers):
            assert producer.write(brokers, "t", {0: batch(2)}) == {0: 5}
            producer.commit_offsets(brokers, "g", {("in", 3): 9})
    assert not {"AddPartitionsToTxn", "AddOffsetsToTxn"} & set(kafka.names())
    assert sequences(kafka) == [(7, 3, 0), (7, 4, 0)], "each transaction has its own epoch"
    assert {version for name, version, _ in kafka.asked if name == "EndTxn"} == {5}


def test_producer_adds_a_group_once_with_transaction_version_1() -> None:
    kafka = broker()
    brokers, producer = taken(kafka)
    for text in ("", "of the copy"):
        producer.commit_offsets(brokers, "g", {("in", 3): 9}, text)
    producer.end(brokers, commit=True)
    assert kafka.names().count("AddOffsetsToTxn") == 1
    requests = [request for name, _, request in kafka.asked if name == "TxnOffsetCommit"]
    partitions = [request.topics[0].partitions[0] for request in requests]
    assert [(p.partition_index, p.committed_offset, p.committed_metadata) for p in partitions] == [
        (3, 9, ""),
        (3, 9, "of the copy"),
    ]
    assert ends(kafka) == [True]


def test_error_of_a_refused_txn_offset_commit_names_the_partition() -> None:
    brokers, producer = taken(broker(**newest(), TxnOffsetCommit=[offsets_committed(Code.UNKNOWN_TOPIC_OR_PARTITION)]))
    with pytest.raises(KafkaAnswered, match=r"group 'g' in the transaction of 'id' for in-3: UNKNOWN_TOPIC_OR_PARTITION"):
        producer.commit_offsets(brokers, "g", {("in", 3): 9})


def test_add_partitions_error_names_the_failed_and_not_the_unattempted_partitions() -> None:
    codes = {0: Code.OPERATION_NOT_ATTEMPTED, 1: Code.TOPIC_AUTHORIZATION_FAILED}
    partitions = [AddPartitionsToTxnPartitionResult(partition_index=i, partition_error_code=code) for i, code in codes.items()]
    topics = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)]
    kafka = broker(AddPartitionsToTxn=[AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)])
    brokers, producer = taken(kafka)
    with pytest.raises(KafkaAnswered, match="adding t-1 to the transaction of 'id': TOPIC_AUTHORIZATION_FAILED"):
        producer.write(brokers, "t", {0: batch(), 1: batch()})


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("code", [Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH])
def test_error_of_a_fenced_producer_names_the_reason(is_new: bool, code: Code) -> None:
    kafka = broker(**(newest() if is_new else {}), Produce=[produced(code)], EndTxn=[EndTxnResponse(error_code=code)])
    brokers, producer = taken(kafka)
    with pytest.raises(FencedProducer, match=r"has taken the transactional id 'id', or the transaction took over 5 s") as raised:
        producer.write(brokers, "t", {0: batch()})
    assert raised.value.code == code
    with pytest.raises(FencedProducer, match="committing the transaction of 'id'"):
        producer.end(brokers, commit=True)


def test_repeated_produce_of_a_batch_has_the_same_sequence_and_an_unknown_offset() -> None:
    answers = [ConnectionResetError(104, "reset"), produced(Code.DUPLICATE_SEQUENCE_NUMBER), produced()]
    kafka = broker(Produce=answers)
    brokers, producer = taken(kafka)
    assert producer.write(brokers, "t", {0: batch(2)}) == {0: -1}
    assert producer.write(brokers, "t", {0: batch()}) == {0: 5}
    assert [sequence for _, _, sequence in sequences(kafka)] == [0, 0, 2]


def test_refused_batch_does_not_advance_the_producer_sequence() -> None:
    kafka = broker(Produce=[produced(Code.MESSAGE_TOO_LARGE), produced()])
    brokers, producer = taken(kafka)
    with pytest.raises(KafkaAnswered, match="writing to t-0: MESSAGE_TOO_LARGE"):
        producer.write(brokers, "t", {0: batch()})
    producer.write(brokers, "t", {0: batch()})
    assert [sequence for _, _, sequence in sequences(kafka)] == [0, 0]


def test_failed_transaction_commit_is_not_followed_by_an_abort() -> None:
    kafka = broker(EndTxn=[EndTxnResponse(error_code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)])
    with pytest.raises(KafkaAnswered, match="committing the transaction of 'id': TRANSACTIONAL_ID"):
        write(kafka)
    assert ends(kafka) == [True]


def test_transaction_without_partitions_sends_no_end_txn() -> None:
    kafka = broker(**newest())
    brokers, producer = taken(kafka)
    producer.end(brokers, commit=True)
    assert ends(kafka) == []
