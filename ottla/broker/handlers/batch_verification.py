"""The part of Produce that asks the transaction coordinator about a transactional batch before its append (KIP-890)."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.api import RequestContext
from ottla.broker.env import Clock
from ottla.broker.partitions import Partition
from ottla.broker.verification import PRODUCE_CODES, Verification, join_transaction
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import BatchHeader
from ottla.storage.steps import Pause

IMPLICIT_ADD_FROM = 12
"""The first version of Produce whose batches add their partition to the transaction."""
ABORTABLE_FROM = 11
"""The first version that knows TRANSACTION_ABORTABLE."""


class Ports(Protocol):
    clock: Clock
    verification: Verification


class BeforeTheLog(KafkaError):
    """An error from before the log was asked, so that the answer has no log start offset."""


def verify(
    ports: Ports,
    context: RequestContext,
    transactional_id: str,
    partition: Partition,
    header: BatchHeader,
    *,
    has_waited: bool,
) -> Pause | None:
    """Check that a partition belongs to the producer's transaction (KIP-890). With transaction version 2 this adds the partition.

    None where the batch may be appended now, else a `Pause` as `join_transaction` gives it, which also says what ``has_waited`` is.
    Raises `KafkaError`.
    """
    # The epoch is checked first: where the transactional id has expired, a fenced producer must still get INVALID_PRODUCER_EPOCH,
    # and not INVALID_PRODUCER_ID_MAPPING (rule CRD-12, docs/rules.md).
    partition.log.producers.check_epoch(header)
    state = partition.log.producers.entries.get(header.producer_id)
    if state is not None and state.txn_first_offset >= 0 and state.epoch == header.producer_epoch:
        return None
    key = (partition.log.topic, partition.log.partition)
    identity = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    implicit_add = context.version >= IMPLICIT_ADD_FROM
    try:
        return join_transaction(
            ports.verification, transactional_id, identity, key, implicit_add=implicit_add, has_waited=has_waited
        )
    except KafkaError as error:
        if not implicit_add:
            partition.log.producers.note_unverified(header, ports.clock.now_ms())
        raise BeforeTheLog(verification_code(error.code, context.version), error.message) from None


def verification_code(code: Code, version: int) -> Code:
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Code.INVALID_TXN_STATE
    if code is Code.CONCURRENT_TRANSACTIONS and version < IMPLICIT_ADD_FROM:
        return Code.NOT_ENOUGH_REPLICAS
    return PRODUCE_CODES.get(code, code)
