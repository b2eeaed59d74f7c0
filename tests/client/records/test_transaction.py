"""Records in a transaction: partitions are added once, and a block that fails aborts."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.errors import KafkaAnswered
from ottla.client.records.producing import TopicProducer
from ottla.client.records.record import NewRecord
from ottla.client.records.transaction import transaction_of
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.protocol.records import read_header
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata


def added(code: int = 0) -> AddPartitionsToTxnResponse:
    partitions = [AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)]
    topics = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def produced(code: int = 0) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=0, error_code=code, base_offset=5)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


def broker(**answers: Any) -> ScriptedBroker:
    found = Coordinator(key="id", node_id=1, host="kafka", port=9092)
    scripted: dict[str, Any] = {
        "Metadata": [metadata(nodes={1: "kafka"}, leaders={"t": [1]})],
        "FindCoordinator": [FindCoordinatorResponse(coordinators=[found])],
        "InitProducerId": [InitProducerIdResponse(producer_id=7, producer_epoch=3)],
        "AddPartitionsToTxn": [added()],
        "Produce": [produced()],
        "EndTxn": [EndTxnResponse()],
    }
    return ScriptedBroker({**scripted, **answers})


def write(kafka: ScriptedBroker, *, is_committed: bool = True, batches: int = 1) -> TopicProducer:
    brokers = ScriptedCluster(kafka=kafka).brokers()
    with transaction_of(brokers, "id", is_committed=is_committed) as transaction:
        producer = TopicProducer(brokers, "t", lambda: 0, transaction)
        for _ in range(batches):
            producer.send(NewRecord(value=b"v"))
            producer.flush()
    return producer


def ends(kafka: ScriptedBroker) -> list[bool]:
    return [request.committed for name, _, request in kafka.asked if name == "EndTxn"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_batches_belong_to_the_transaction(is_committed: bool) -> None:
    kafka = broker()
    assert write(kafka, is_committed=is_committed, batches=2).last_offsets == {0: 5}
    requests = [request for name, _, request in kafka.asked if name == "Produce"]
    headers = [read_header(request.topic_data[0].partition_data[0].records) for request in requests]
    assert [(h.is_transactional, h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        (True, 7, 3, 0),
        (True, 7, 3, 1),
    ]
    assert {request.transactional_id for request in requests} == {"id"}
    assert kafka.names().count("AddPartitionsToTxn") == 1
    assert ends(kafka) == [is_committed]
    versions = {name: version for name, version, _ in kafka.asked}
    assert (versions["AddPartitionsToTxn"], versions["EndTxn"]) == (3, 4), "versions of clients of every transaction.version"


def test_failed_write_aborts() -> None:
    kafka = broker(Produce=[produced(Code.MESSAGE_TOO_LARGE)])
    with pytest.raises(KafkaAnswered, match="MESSAGE_TOO_LARGE"):
        write(kafka)
    assert ends(kafka) == [False]


def test_partition_that_cannot_be_added_ends_nothing() -> None:
    kafka = broker(AddPartitionsToTxn=[added(Code.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(KafkaAnswered, match="TOPIC_AUTHORIZATION_FAILED"):
        write(kafka)
    assert ends(kafka) == []


def test_busy_coordinator_is_asked_again() -> None:
    kafka = broker(AddPartitionsToTxn=[added(Code.CONCURRENT_TRANSACTIONS), added()])
    write(kafka)
    assert kafka.names().count("AddPartitionsToTxn") == 2


def test_without_an_id_there_is_no_transaction() -> None:
    with transaction_of(ScriptedCluster(kafka=broker()).brokers(), None, is_committed=True) as transaction:
        assert transaction is None
