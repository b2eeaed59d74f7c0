"""AddOffsetsToTxn, versions 0 to 4 (KIP-98): adds the group's partition of ``__consumer_offsets`` to the transaction.

- 2 (KIP-588): fenced producers get PRODUCER_FENCED, in older versions INVALID_PRODUCER_EPOCH.
- 4 (KIP-890): adds the error TRANSACTION_ABORTABLE.

As in Kafka ``__consumer_offsets`` need not exist yet: the producer's next request, FindCoordinator, creates it.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.common import code_for_version
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


class Ports(Protocol):
    groups: Groups
    transactions: Transactions


async def handle(ports: Ports, request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    try:
        if not request.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        partition = (OFFSETS_TOPIC, ports.groups.expected_partition_of(request.group_id))
        identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        ports.transactions.add_partitions(request.transactional_id, identity, [partition], client_transaction_version=0)
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return AddOffsetsToTxnResponse()


def failed(request: AddOffsetsToTxnRequest, version: int, code: Code) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code_for_version(code, version, producer_fenced_from=2))


API = Declaration(
    key=25,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID transactional_id, READ GROUP group_id"),
)
