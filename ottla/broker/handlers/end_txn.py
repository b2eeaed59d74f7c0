"""EndTxn, versions 0 to 5 (KIP-98): commits or aborts a transaction. Responds after the markers are written (docs/differences.md).

- 2 (KIP-588): PRODUCER_FENCED; older clients get INVALID_PRODUCER_EPOCH.
- 4 (KIP-890): TRANSACTION_ABORTABLE.
- 5 (KIP-890): every end bumps the epoch, and the response has the new producer id and epoch.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.common import fenced_code
from ottla.broker.hooks.interception import DecisionDelayed, Latch
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.pending_response import Later
from ottla.broker.partitions.barrier import Barrier
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

TV2_FROM = 5


class Ports(Protocol):
    barrier: Barrier
    transactions: Transactions
    lifecycle: Lifecycle


def handle(ports: Ports, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | Later:
    try:
        if not request.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        identity = ports.transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=2 if context.version >= TV2_FROM else 0,
        )
    except DecisionDelayed as held:
        return _when_released(ports, request, context, held.latch)
    except KafkaError as error:
        return failed(request, context.version, error.code)
    if ports.barrier.is_replicated:
        # The wait below ends when the decision is committed. The response need not wait for the record that completes the
        # transaction.
        ports.barrier.take_dependencies()
    response = EndTxnResponse(throttle_time_ms=0, error_code=0, producer_id=identity.producer_id, producer_epoch=identity.epoch)
    transactions = ports.transactions
    if transactions.has_ended(request.transactional_id):
        return response
    later = Later(is_durable=True)
    # The response if another broker now leads the coordinator's partition (TransactionStateManager.appendTransactionToLog).
    lost = failed(request, context.version, Code.NOT_COORDINATOR)
    transactions.when_ended(request.transactional_id, lambda durable: later.resolve(response if durable else lost))
    return later


def _when_released(ports: Ports, request: EndTxnRequest, context: RequestContext, latch: Latch) -> Later:
    """Handle the request again after the latch is opened, as if it had arrived then."""
    later = Later()

    def answered(response: EndTxnResponse) -> None:
        later.resolve(response)

    def released() -> None:
        if ports.lifecycle.is_stopping:
            return
        response = handle(ports, request, context)
        if isinstance(response, Later):
            response.on_ready(answered)
        else:
            answered(response)

    latch.when_open(released)
    return later


def failed(request: EndTxnRequest, version: int, code: Code) -> EndTxnResponse:
    return EndTxnResponse(throttle_time_ms=0, error_code=fenced_code(code, version, 2))


API = Declaration(
    key=26,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID"),
)
