"""The state of one transactional id, and its record in ``__transaction_state`` (TransactionMetadata, TransactionLog)."""

from __future__ import annotations

import msgspec

from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import transaction_log_key, transaction_log_value
from ottla.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from ottla.protocol.primitives import string
from ottla.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TxnState

_STATES = {int(state): state for state in TxnState}
_STATE_AT = 16
"""The byte position of the state in a record's value, after the version, producer id, producer epoch and transaction timeout."""

TXN_KEY_VERSION = 0
_KEY_VERSION = TXN_KEY_VERSION.to_bytes(2, "big")
LAST_EPOCH = 0x7FFF
EXHAUSTED_EPOCH = LAST_EPOCH - 1
"""The highest epoch that a client can get. Epoch 32767 only ends transactions of a client with this epoch."""


class TxnMetadata(msgspec.Struct, frozen=True, gc=False):
    """The state of one transactional id. Times are in ms, -1 if unset.

    ``last_epoch`` is the producer's previous epoch. With it the coordinator recognises a repeated InitProducerId instead of fencing
    its producer. It is not logged, so a restart forgets it, as in Kafka.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TxnState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0
    last_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= EXHAUSTED_EPOCH

    def logged(self) -> TxnMetadata:
        """The state that a restart would restore, without fields that are not logged."""
        return msgspec.structs.replace(self, last_epoch=NO_PRODUCER_EPOCH)


class TxnRecord(LogRecord, gc=False, frozen=True):
    """A record, and the metadata that it encodes.

    The coordinator replays the metadata without decoding the record, like Kafka's coordinator. ``metadata.last_epoch`` is not part
    of the record.
    """

    metadata: TxnMetadata


def key_record(transactional_id: str) -> bytes:
    """Return an encoded `TransactionLogKey`. Faster than `encode_record`, which matters because each transaction writes three
    records."""
    return _KEY_VERSION + string(transactional_id)


def to_record(metadata: TxnMetadata, *, flexible: bool) -> LogRecord:
    """Encode the record of a transactional id. ``flexible`` selects value version 1, used from transaction.version 1 on.

    The result is a `TxnRecord` unless the record omits fields, as version 0 does.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        # Kafka writes null in state Empty, and in every other state a list that may be empty.
        transaction_partitions=None
        if metadata.state is TxnState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()],
        transaction_last_update_timestamp_ms=metadata.update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version,
    )
    key = key_record(metadata.transactional_id)
    if not flexible:
        return LogRecord(key, encode_record(transaction_log_value, value, 0))
    return TxnRecord(key, encode_record(transaction_log_value, value, 1), metadata)


def tombstone(transactional_id: str) -> LogRecord:
    return LogRecord(key_record(transactional_id), None)


def state_of(value: bytes) -> TxnState | None:
    """Return the transaction state in a record's value, or None if the version or state is unknown."""
    if len(value) <= _STATE_AT or value[0] or value[1] > transaction_log_value.MAX_VERSION:
        return None
    return _STATES.get(value[_STATE_AT])


def from_record(record: LogRecord) -> tuple[str, TxnMetadata | None]:
    """Decode a record into the transactional id and its metadata, which is None for a tombstone. Raises `DecodeError` for an
    unknown version or state."""
    if record.key is None:
        raise DecodeError("the record has no key")
    transactional_id = decode_record(transaction_log_key, record.key).transactional_id
    if record.value is None:
        return transactional_id, None
    value = decode_record(transaction_log_value, record.value)
    if value.transaction_status not in _STATES:
        raise DecodeError(f"unknown transaction state {value.transaction_status}")
    return transactional_id, TxnMetadata(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        TxnState(value.transaction_status),
        frozenset((t.topic, p) for t in value.transaction_partitions or () for p in t.partition_ids),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.next_producer_epoch,
        value.client_transaction_version,
    )


def check_encoded(record: TxnRecord) -> None:
    """Assert that a restart decodes the metadata that the coordinator replays now."""
    decoded, metadata = from_record(record)[1], record.metadata.logged()
    assert decoded == metadata, f"a restart reads {decoded} instead of {metadata}"
