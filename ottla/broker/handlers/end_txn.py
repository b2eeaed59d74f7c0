"""EndTxn, versions 0 to 5 (KIP-98): commits or aborts a transaction.

The response waits for the markers, at most 1 s (docs/differences.md).

- 2 (KIP-588): fenced producers get PRODUCER_FENCED, in older versions INVALID_PRODUCER_EPOCH.
- 4 (KIP-890): adds the error TRANSACTION_ABORTABLE.
- 5 (KIP-890): every commit or abort bumps the epoch; the response has the new producer id and epoch.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext, WaitsFor
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.common import code_for_version
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.transaction_states import TV2

FIRST_TV2_VERSION = 5
"""The first version whose commit or abort bumps the producer epoch (TransactionVersion.transactionVersionForEndTxn)."""


class Ports(Protocol):
    transactions: Transactions


async def handle(ports: Ports, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    if not request.transactional_id:
        raise KafkaError(Code.INVALID_REQUEST)
    next_identity = await ports.transactions.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_transaction_version=TV2 if context.version >= FIRST_TV2_VERSION else 0,
    )
    return EndTxnResponse(
        throttle_time_ms=0, error_code=0, producer_id=next_identity.producer_id, producer_epoch=next_identity.epoch
    )


def failed(request: EndTxnRequest, version: int, code: Code) -> EndTxnResponse:
    return EndTxnResponse(throttle_time_ms=0, error_code=code_for_version(code, version, producer_fenced_from=2))


API = Declaration(
    key=26,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID transactional_id"),
    waits_for=WaitsFor.HANDLER,
)
