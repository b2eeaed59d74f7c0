"""ListTransactions, versions 0 to 2 (KIP-664): lists transactional ids, filtered by state and producer id.

- 1 (KIP-994): the request may filter by the transaction's duration.
- 2 (KIP-1152): the request may filter transactional ids by a regular expression in RE2 syntax.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.each import made
from ottla.broker.loop.env import Clock
from ottla.coordinator.expressions import InvalidExpression, compiled, match_work
from ottla.coordinator.transaction.states import BY_LABEL
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.transaction_states import TxnState
from ottla.security.acl.codes import AclOperation, ResourceType


class Ports(Protocol):
    authorizer: RequestAuthorizer
    transactions: Transactions
    clock: Clock


async def handle(ports: Ports, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    if ports.transactions.is_loading:
        return failed(request, context.version, Code.COORDINATOR_LOAD_IN_PROGRESS)
    filters = request.state_filters
    unknown = await made(lambda: [s for s in filters if s not in BY_LABEL], len(filters))
    states = await made(lambda: {BY_LABEL[s] for s in filters if s in BY_LABEL}, len(filters))
    if request.state_filters and not states:
        return ListTransactionsResponse(throttle_time_ms=0, error_code=0, unknown_state_filters=unknown)
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = compiled(request.transactional_id_pattern)
        except InvalidExpression:
            return ListTransactionsResponse(throttle_time_ms=0, error_code=Code.INVALID_REGULAR_EXPRESSION)
    producers = await made(lambda: set(request.producer_id_filters), len(request.producer_id_filters))
    oldest_ms = ports.clock.steady_ms() - request.duration_filter if request.duration_filter >= 0 else None
    transaction_states, pace = [], Pace(double_first=True)
    for shard in ports.transactions.shards():
        for m in list(shard.ids.values()):
            if pace.spend(1 if pattern is None else match_work(pattern, m.transactional_id)):
                await next_turn()
            if m.state is TxnState.DEAD or (states and m.state not in states) or (producers and m.producer_id not in producers):
                continue
            if oldest_ms is not None and m.start_ms > oldest_ms:
                continue
            if pattern is not None and not pattern.fullmatch(m.transactional_id):
                continue
            if not ports.authorizer.allows(
                context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, m.transactional_id, logs_denied=False
            ):
                continue
            transaction_states.append(
                TransactionState(transactional_id=m.transactional_id, producer_id=m.producer_id, transaction_state=m.state.label)
            )
    return ListTransactionsResponse(
        throttle_time_ms=0, error_code=0, unknown_state_filters=unknown, transaction_states=transaction_states
    )


def failed(request: ListTransactionsRequest, version: int, code: Code) -> ListTransactionsResponse:
    return ListTransactionsResponse(throttle_time_ms=0, error_code=code)


API = Declaration(
    key=66,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE TRANSACTIONAL_ID", by_handler=True),
    is_bulky=True,
)
