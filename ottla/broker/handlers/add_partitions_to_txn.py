"""AddPartitionsToTxn, versions 0 to 5 (KIP-98): adds all partitions of a request to a transaction, or none.

- 2 (KIP-588): fenced producers get PRODUCER_FENCED, in older versions INVALID_PRODUCER_EPOCH.
- 4 (KIP-890): used by brokers, which add or verify partitions of several transactions at once. Kafka authorises CLUSTER_ACTION on
  the cluster; in older versions WRITE on the transactional id and on each topic.
- 5 (KIP-890): adds the error TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.common import code_for_version
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TV2
from ottla.security.acl.codes import AclOperation, ResourceType

Codes = dict[TopicPartition, Code]
BROKERS_FROM = 4
TRANSACTION_WORK = 100
"""Estimated time to handle a transaction, excluding its partitions, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    partitions: Partitions
    transactions: Transactions


async def handle(ports: Ports, request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    version, pace = context.version, Pace(double_first=True)
    if version < BROKERS_FROM:
        topics = request.v3_and_below_topics
        identity = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        denied = {
            topic.name
            for topic in topics
            if not ports.authorizer.allows(context, AclOperation.WRITE, ResourceType.TOPIC, topic.name)
        }
        codes = await _add(
            ports, request.v3_and_below_transactional_id, identity, topics, pace, client_transaction_version=0, denied=denied
        )
        results = await made(
            lambda: _results(topics, lambda p: code_for_version(codes[p], version, producer_fenced_from=2)), len(codes)
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    transactions = []
    for transaction in request.transactions:
        codes = await _one(ports, transaction, pace)
        results = await made(partial(_results, transaction.topics, codes.__getitem__), len(codes))
        transactions.append(AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results))
        if pace.spend(TRANSACTION_WORK + id_work(transaction.transactional_id)):
            await next_turn()
    return AddPartitionsToTxnResponse(results_by_transaction=transactions)


async def _one(ports: Ports, asked: AddPartitionsToTxnTransaction, pace: Pace) -> Codes:
    identity = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    if not asked.verify_only:
        return await _add(ports, asked.transactional_id, identity, asked.topics, pace, client_transaction_version=2)
    partitions = await _partitions(asked.topics, pace)
    bad = await _unknown(ports, partitions, pace)
    if bad:
        return await _none_attempted(partitions, bad)
    try:
        if not asked.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        return ports.transactions.verify(asked.transactional_id, identity, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)


async def _add(
    ports: Ports,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    topics: list[AddPartitionsToTxnTopic],
    pace: Pace,
    client_transaction_version: int,
    denied: Container[str] = (),
) -> Codes:
    """Add all partitions to the transaction, or none.

    Partitions of a topic that was just deleted may be added, because they get no marker.
    """
    partitions = await _partitions(topics, pace)
    bad = await _unknown(ports, partitions, pace)
    for topic in topics:
        is_for_a_group = client_transaction_version >= TV2 and topic.name == OFFSETS_TOPIC and not ports.cluster.state.is_alone
        if topic.name in denied or (topic.name in INTERNAL_TOPICS and not is_for_a_group):
            # As in Kafka, the versions for clients refuse internal topics, even without an authorizer. In the versions for brokers,
            # Kafka without an authorizer accepts internal topics from every client. ottla accepts only the offsets topic, from
            # another broker's group coordinator.
            bad |= dict.fromkeys(((topic.name, index) for index in topic.partitions), Code.TOPIC_AUTHORIZATION_FAILED)
        if pace.spend(1 + len(topic.partitions) // 10):
            await next_turn()
    if bad:
        return await _none_attempted(partitions, bad)
    code = Code.NONE
    try:
        if not transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        ports.transactions.add_partitions(transactional_id, identity, partitions, client_transaction_version)
    except KafkaError as error:
        code = error.code
    return await made(lambda: dict.fromkeys(partitions, code), len(partitions))


async def _unknown(ports: Ports, partitions: list[TopicPartition], pace: Pace) -> Codes:
    bad: Codes = {}
    for topic, index in partitions:
        if not ports.partitions.exists(topic, index):
            bad[topic, index] = Code.UNKNOWN_TOPIC_OR_PARTITION
        if pace.spend(1):
            await next_turn()
    return bad


async def _none_attempted(partitions: list[TopicPartition], bad: Codes) -> Codes:
    return await made(lambda: {p: bad.get(p, Code.OPERATION_NOT_ATTEMPTED) for p in partitions}, len(partitions))


async def _partitions(topics: list[AddPartitionsToTxnTopic], pace: Pace) -> list[TopicPartition]:
    partitions = []
    for topic in topics:
        for index in topic.partitions:
            partitions.append((topic.name, index))
            if pace.spend(1):
                await next_turn()
    return partitions


def _results(
    topics: list[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], Code]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=t.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=i, partition_error_code=code_of((t.name, i)))
                for i in t.partitions
            ],
        )
        for t in topics
    ]


def failed(request: AddPartitionsToTxnRequest, version: int, code: Code) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=code,
        results_by_transaction=[],
        results_by_topic_v3_and_below=_results(topics, lambda _: code_for_version(code, version, producer_fenced_from=2)),
    )


def _authorise(authorizer: RequestAuthorizer, request: AddPartitionsToTxnRequest, context: RequestContext) -> None:
    if context.version >= BROKERS_FROM:
        check(authorizer, context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    else:
        transactional_id = request.v3_and_below_transactional_id
        check(authorizer, context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


API = Declaration(
    key=24,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID, WRITE TOPIC, CLUSTER_ACTION CLUSTER"),
    authorise=_authorise,
)
