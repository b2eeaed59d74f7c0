"""AddPartitionsToTxn, versions 0 to 5 (KIP-98, KIP-890).

Up to 3 a client adds partitions, all or none. From 4 on brokers add or verify for several transactions at once.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.api import Context, Declaration
from broker.handlers.common import fenced_code
from coordinator.cluster import INTERNAL_TOPICS
from coordinator.transaction.metadata import TopicPartition
from coordinator.transaction.shard import ProducerIdAndEpoch
from protocol.errors import Code, KafkaError
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

Codes = dict[TopicPartition, Code]
BROKERS_FROM = 4


def handle(context: Context, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    version = context.version
    if version < BROKERS_FROM:
        topics = request.v3_and_below_topics
        identity = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        codes = _add(context, request.v3_and_below_transactional_id, identity, topics, client_version=0)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(topics, lambda p: fenced_code(codes[p], version, 2))
        )
    results = []
    for transaction in request.transactions:
        codes = _one(context, transaction)
        results.append(AddPartitionsToTxnResult(transaction.transactional_id, _results(transaction.topics, codes.__getitem__)))
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _one(context: Context, asked: AddPartitionsToTxnTransaction) -> Codes:
    identity = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    if not asked.verify_only:
        return _add(context, asked.transactional_id, identity, asked.topics, client_version=2)
    partitions = _partitions(asked.topics)
    try:
        if not asked.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        return context.broker.transactions.verify(asked.transactional_id, identity, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)


def _add(
    context: Context,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    topics: list[AddPartitionsToTxnTopic],
    client_version: int,
) -> Codes:
    partitions = _partitions(topics)
    bad: Codes = {}
    for topic, index in partitions:
        if topic in INTERNAL_TOPICS:
            # As Kafka, without an authorizer too: __consumer_offsets comes in by AddOffsetsToTxn alone.
            bad[topic, index] = Code.TOPIC_AUTHORIZATION_FAILED
        elif context.broker.partitions.find(topic, index) is None:
            bad[topic, index] = Code.UNKNOWN_TOPIC_OR_PARTITION
    if bad:
        return {p: bad.get(p, Code.OPERATION_NOT_ATTEMPTED) for p in partitions}
    try:
        if not transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        context.broker.transactions.add_partitions(transactional_id, identity, partitions, client_version)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return dict.fromkeys(partitions, Code.NONE)


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _results(
    topics: list[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], Code]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(t.name, [AddPartitionsToTxnPartitionResult(i, code_of((t.name, i))) for i in t.partitions])
        for t in topics
    ]


def failed(request: AddPartitionsToTxnRequest, version: int, code: Code) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    return AddPartitionsToTxnResponse(0, code, [], _results(topics, lambda _: fenced_code(code, version, 2)))


API = Declaration(24, handle, failed)
