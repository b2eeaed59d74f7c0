"""AddOffsetsToTxn, versions 0 to 4 (KIP-98): the group's partition of ``__consumer_offsets`` joins the transaction."""

from __future__ import annotations

from ottla.broker.api import Context, Declaration
from ottla.broker.handlers.common import fenced_code
from ottla.coordinator.cluster import OFFSETS_TOPIC
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(context: Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    broker = context.broker
    try:
        if not request.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        partition = (OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
        identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        broker.transactions.add_partitions(request.transactional_id, identity, [partition], client_version=0)
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return AddOffsetsToTxnResponse()


def failed(request: AddOffsetsToTxnRequest, version: int, code: Code) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(0, fenced_code(code, version, 2))


API = Declaration(25, handle, failed)
