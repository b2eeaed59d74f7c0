"""EndTxn, versions 0 to 5 (KIP-98, KIP-588, KIP-890).

Version 2 knows PRODUCER_FENCED. From 5 on every end bumps the epoch, and the answer carries the new identity.
"""

from __future__ import annotations

from ottla.broker.api import Context, Declaration, Later
from ottla.broker.handlers.common import fenced_code
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

TV2_FROM = 5


def handle(context: Context, request: EndTxnRequest) -> EndTxnResponse | Later:
    try:
        if not request.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        identity = context.broker.transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=2 if context.version >= TV2_FROM else 0,
        )
    except KafkaError as error:
        return failed(request, context.version, error.code)
    response = EndTxnResponse(0, 0, identity.producer_id, identity.epoch)
    transactions = context.broker.transactions
    if transactions.has_ended(request.transactional_id):
        return response
    later = Later(is_durable=True)
    lost = failed(request, context.version, Code.COORDINATOR_NOT_AVAILABLE)
    transactions.when_ended(request.transactional_id, lambda durable: later.resolve(response if durable else lost))
    return later


def failed(request: EndTxnRequest, version: int, code: Code) -> EndTxnResponse:
    return EndTxnResponse(0, fenced_code(code, version, 2))


API = Declaration(26, handle, failed)
