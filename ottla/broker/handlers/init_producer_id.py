"""InitProducerId, versions 0 to 6 (KIP-98): returns a producer id and epoch, which fence older producers of a transactional id.

- 3 (KIP-360): a producer that recovers from an error sends its producer id and epoch, and fences no other producer.
- 4 (KIP-588): fenced producers get PRODUCER_FENCED, in older versions INVALID_PRODUCER_EPOCH.
- 6 (KIP-939): two-phase commit. Unstable in Kafka, and offered only with ``unstable.api.versions.enable``.

Kafka authorises WRITE on the transactional id, and TWO_PHASE_COMMIT on it for two-phase commit. Without a transactional id it
authorises IDEMPOTENT_WRITE on the cluster, or WRITE on any topic.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.fencing_log import FencingLog
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.support.common import code_for_version
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.records import NO_PRODUCER_EPOCH
from ottla.protocol.transaction_states import TxnState
from ottla.security.acl.codes import AclOperation, ResourceType


class Ports(Protocol):
    transactions: Transactions
    producer_ids: ProducerIds
    fencing_log: FencingLog


async def handle(ports: Ports, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        expected = _expected(request)
        if request.transactional_id is None:
            return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=ports.producer_ids.new(), producer_epoch=0)
        if not request.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        identity = _initialise(ports, context, request, request.transactional_id, expected)
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _initialise(
    ports: Ports,
    context: RequestContext,
    request: InitProducerIdRequest,
    transactional_id: str,
    expected: ProducerIdAndEpoch | None,
) -> ProducerIdAndEpoch:
    """Initialise a transactional producer. Raises `KafkaError`.

    Logs an event if the producer fences another producer, but not if it recovers from an error (KIP-360).
    """
    metadata = ports.transactions.shard_of(transactional_id).ids.get(transactional_id)
    before = None
    if metadata is not None and metadata.producer_epoch != NO_PRODUCER_EPOCH and expected is None:
        before = ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
    try:
        identity = ports.transactions.init_producer_id(
            transactional_id,
            request.transaction_timeout_ms,
            expected,
            two_phase_commit=request.enable2_pc,
            keep_prepared=request.keep_prepared_txn,
        )
    except KafkaError as error:
        # CONCURRENT_TRANSACTIONS: another producer's open transaction was aborted, or a decided transaction is still being
        # completed.
        is_open = metadata is not None and metadata.state is TxnState.ONGOING
        if before is not None and is_open and error.code is Code.CONCURRENT_TRANSACTIONS:
            ports.fencing_log.note_abort(transactional_id, before)
        raise
    if before is None:
        ports.fencing_log.forget_abort(transactional_id)
    else:
        ports.fencing_log.note_new_owner(transactional_id, before, identity, context.client_id, context.client_host)
    return identity


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(Code.INVALID_REQUEST)
    return None if request.producer_id == -1 else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)


def failed(request: InitProducerIdRequest, version: int, code: Code) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code_for_version(code, version, producer_fenced_from=4), producer_id=-1, producer_epoch=-1
    )


def _authorise(authorizer: RequestAuthorizer, request: InitProducerIdRequest, context: RequestContext) -> None:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        check(authorizer, context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if request.enable2_pc:
            check(authorizer, context, AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not authorizer.allows_any(context, AclOperation.WRITE, ResourceType.TOPIC):
        check(authorizer, context, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


API = Declaration(
    key=22,
    handle=handle,
    failed=failed,
    authorisation=authorisations(
        "WRITE TRANSACTIONAL_ID, TWO_PHASE_COMMIT TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER, WRITE TOPIC"
    ),
    authorise=_authorise,
)
