"""Computes the next metadata of a transactional id: epochs, producer ids and states (TransactionMetadata.prepare* of Kafka)."""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.coordinator.transaction.metadata import EXHAUSTED_EPOCH, LAST_EPOCH, TxnMetadata
from ottla.coordinator.transaction.requests import NewProducerId, ProducerIdAndEpoch
from ottla.coordinator.transaction.states import check_transition
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.protocol.transaction_states import TV2, TxnState


def move(current: TxnMetadata, state: TxnState, **changes: Any) -> TxnMetadata:
    """Return the metadata with a new state and other changes. Raises `IllegalTransactionTransition`."""
    check_transition(current.state, state)
    return msgspec.structs.replace(current, state=state, **changes)


def may_expect(current: TxnMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether a producer that recovers as ``expected`` (KIP-360) may be the current owner of the id."""
    if current.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == current.producer_id:
        return True
    # The producer was assigned a new producer id, but the response with it was lost (rule INI-18, docs/rules.md).
    return expected.producer_id == current.previous_producer_id and expected.epoch >= EXHAUSTED_EPOCH


def check_identity(current: TxnMetadata, identity: ProducerIdAndEpoch) -> None:
    """Raise INVALID_PRODUCER_ID_MAPPING for a wrong producer id, or PRODUCER_FENCED for a wrong epoch."""
    if current.producer_id != identity.producer_id:
        raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != identity.epoch:
        raise KafkaError(Code.PRODUCER_FENCED)


def next_epoch(current: TxnMetadata, expected: ProducerIdAndEpoch | None, new_producer_id: NewProducerId) -> TxnMetadata:
    """Return the metadata with the producer id and epoch that InitProducerId returns, or raise PRODUCER_FENCED.

    Corresponds to Kafka's prepareIncrementProducerEpoch and prepareProducerIdRotation.
    """
    epoch = current.producer_epoch
    matches = expected is None or expected.epoch == epoch
    last = NO_PRODUCER_EPOCH if expected is None else epoch
    if current.is_epoch_exhausted and matches:
        return msgspec.structs.replace(
            current, producer_id=new_producer_id(), previous_producer_id=current.producer_id, producer_epoch=0, last_epoch=last
        )
    if matches or epoch == NO_PRODUCER_EPOCH:
        return msgspec.structs.replace(current, producer_epoch=epoch + 1, last_epoch=last, previous_producer_id=current.producer_id)
    if expected is not None and expected.epoch == current.last_epoch:
        return current
    raise KafkaError(Code.PRODUCER_FENCED)


def bumped(
    current: TxnMetadata, state: TxnState, now_ms: int, client_transaction_version: int, new_producer_id: NewProducerId
) -> TxnMetadata:
    """Return the metadata in a Prepare state with the next epoch.

    If that is the last epoch, transaction version 2 also assigns the next producer id, which the completion uses.
    """
    epoch = min(current.producer_epoch + 1, LAST_EPOCH)
    rotates = epoch == LAST_EPOCH and client_transaction_version >= TV2
    was_open = current.state in (TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE)
    return move(
        current,
        state,
        producer_epoch=epoch,
        last_epoch=current.producer_epoch,
        update_ms=now_ms,
        start_ms=current.start_ms if was_open else now_ms,
        partitions=current.partitions if was_open else frozenset(),
        client_transaction_version=client_transaction_version,
        previous_producer_id=current.producer_id,
        next_producer_id=new_producer_id() if rotates else NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
    )


def fenced_and_aborted(current: TxnMetadata, now_ms: int, new_producer_id: NewProducerId) -> TxnMetadata:
    """Return the metadata in PrepareAbort with a bumped epoch, which fences the producer that opened the transaction."""
    fenced = move(current, TxnState.PREPARE_EPOCH_FENCE)
    return bumped(fenced, TxnState.PREPARE_ABORT, now_ms, current.client_transaction_version, new_producer_id)


def completion(current: TxnMetadata, now_ms: int) -> TxnMetadata:
    """Return the Complete state that follows a Prepare state once all markers are written (prepareComplete of Kafka)."""
    rotated = current.client_transaction_version >= TV2 and current.next_producer_id != NO_PRODUCER_ID
    return move(
        current,
        TxnState.COMPLETE_COMMIT if current.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT,
        producer_id=current.next_producer_id if rotated else current.producer_id,
        producer_epoch=0 if rotated else current.producer_epoch,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
        update_ms=now_ms,
    )


def successor(prepared: TxnMetadata) -> ProducerIdAndEpoch:
    """Return the producer id and epoch that the client uses after ``prepared`` is complete."""
    if prepared.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(prepared.next_producer_id, 0)
    return ProducerIdAndEpoch(prepared.producer_id, prepared.producer_epoch)
