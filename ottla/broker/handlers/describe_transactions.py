"""DescribeTransactions, version 0 (KIP-664): describes transactional ids with their state, producer and partitions.

Kafka authorises DESCRIBE on each transactional id, and leaves out partitions of topics that the client may not DESCRIBE.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.each import each
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.security.acl.codes import AclOperation, ResourceType


class Ports(Protocol):
    authorizer: RequestAuthorizer
    transactions: Transactions


async def handle(ports: Ports, request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    return await each(
        request.transactional_ids,
        lambda transactional_id: _describe(ports, context, transactional_id),
        lambda results: DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=list(results)),
        work=id_work,
    )


def _describe(ports: Ports, context: RequestContext, transactional_id: str) -> TransactionState:
    authorizer = ports.authorizer
    if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(error_code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id=transactional_id)
    if not transactional_id:
        return TransactionState(error_code=Code.INVALID_REQUEST, transactional_id=transactional_id)
    try:
        metadata = ports.transactions.shard_of(transactional_id).ids.get(transactional_id)
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    if metadata is None:
        return TransactionState(error_code=Code.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(ports.transactions.pending_partitions(metadata)):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            TopicData(topic=name, partitions=indexes)
            for name, indexes in topics.items()
            if authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        ],
    )


def failed(request: DescribeTransactionsRequest, version: int, code: Code) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        throttle_time_ms=0,
        transaction_states=[TransactionState(error_code=code, transactional_id=i) for i in request.transactional_ids],
    )


API = Declaration(
    key=65,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE TRANSACTIONAL_ID, DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
)
