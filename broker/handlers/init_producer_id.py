"""InitProducerId, versions 0 to 6 (KIP-98, KIP-360, KIP-588, KIP-939).

Version 3 may name the current producer id and epoch, 4 knows PRODUCER_FENCED. Version 6, for two-phase commit, is
unstable in Kafka 4.3 and offered only with ``unstable.api.versions.enable``.
"""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import fenced_code
from coordinator.transaction.shard import ProducerIdAndEpoch
from protocol.errors import Code, KafkaError
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    broker = context.broker
    try:
        expected = _expected(request)
        if request.transactional_id is None:
            return InitProducerIdResponse(0, 0, broker.cluster.new_producer_id(), 0)
        if not request.transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        identity = broker.transactions.init_producer_id(
            request.transactional_id,
            request.transaction_timeout_ms,
            expected,
            two_phase_commit=request.enable2_pc,
            keep_prepared=request.keep_prepared_txn,
        )
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return InitProducerIdResponse(0, 0, identity.producer_id, identity.epoch)


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(Code.INVALID_REQUEST)
    return None if request.producer_id == -1 else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)


def failed(request: InitProducerIdRequest, version: int, code: Code) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, fenced_code(code, version, 4), -1, -1)


API = Declaration(22, handle, failed)
