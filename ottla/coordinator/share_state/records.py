"""Records of ``__share_group_state``: a snapshot has the whole state of a share partition, an update only changes."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from ottla.coordinator.result import LogRecord
from ottla.coordinator.share_state.batches import StateBatch
from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import share_snapshot_key, share_snapshot_value, share_update_key, share_update_value
from ottla.protocol.messages.share_snapshot_key import ShareSnapshotKey
from ottla.protocol.messages.share_snapshot_value import ShareSnapshotValue
from ottla.protocol.messages.share_update_key import ShareUpdateKey
from ottla.protocol.messages.share_update_value import ShareUpdateValue

B = TypeVar("B", share_snapshot_value.StateBatch, share_update_value.StateBatch)


class ShareKey(NamedTuple):
    """The id of a share partition: a group and a topic partition (SharePartitionKey of Kafka)."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareState(msgspec.Struct, frozen=True):
    """The persisted state of a share partition (ShareGroupOffset of Kafka). Times are in ms, 0 if unset.

    ``delivery_complete_count`` is the number of records from the start offset on that need no further delivery, -1 if unknown. It
    is used to compute the lag of a group.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0


class ShareUpdate(msgspec.Struct, frozen=True):
    """The content of a ShareUpdate record. A start offset or leader epoch of -1 means unchanged."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...] = ()


def snapshot_record(key: ShareKey, state: ShareState) -> LogRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=[_written(share_snapshot_value.StateBatch, batch) for batch in state.state_batches],
    )
    return LogRecord(_snapshot_key(key), encode_record(share_snapshot_value, value, 0))


def update_record(key: ShareKey, update: ShareUpdate) -> LogRecord:
    value = ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[_written(share_update_value.StateBatch, batch) for batch in update.state_batches],
    )
    raw = encode_record(share_update_key, ShareUpdateKey(**key._asdict()), 0)
    # The key begins with the record type, not with a version.
    return LogRecord(share_update_key.RECORD_TYPE.to_bytes(2, "big") + raw[2:], encode_record(share_update_value, value, 0))


def _written(kind: type[B], batch: StateBatch) -> B:
    first_offset, last_offset, state, count = batch
    return kind(first_offset=first_offset, last_offset=last_offset, delivery_state=state, delivery_count=count)


def tombstone(key: ShareKey) -> LogRecord:
    return LogRecord(_snapshot_key(key), None)


def _snapshot_key(key: ShareKey) -> bytes:
    return encode_record(share_snapshot_key, ShareSnapshotKey(**key._asdict()), 0)


def from_record(record: LogRecord) -> tuple[ShareKey, ShareState | ShareUpdate | None]:
    """Decode a record into the share partition and its state or update (None: tombstone). Raises `DecodeError` for another type."""
    if record.key is None:
        raise DecodeError("the record has no key")
    kind = int.from_bytes(record.key[:2], "big", signed=True)
    if kind == share_snapshot_key.RECORD_TYPE:
        key = _read_key(share_snapshot_key, record.key)
        return key, None if record.value is None else _read_snapshot(record.value)
    if kind == share_update_key.RECORD_TYPE and record.value is not None:
        return _read_key(share_update_key, record.key), _read_update(record.value)
    raise DecodeError(f"unknown record type {kind}")


def _read_key(module: object, raw: bytes) -> ShareKey:
    key = decode_record(module, b"\0\0" + raw[2:])
    return ShareKey(key.group_id, key.topic_id, key.partition)


def _read_snapshot(value: bytes) -> ShareState:
    v: ShareSnapshotValue = decode_record(share_snapshot_value, value)
    return ShareState(
        snapshot_epoch=v.snapshot_epoch,
        state_epoch=v.state_epoch,
        leader_epoch=v.leader_epoch,
        start_offset=v.start_offset,
        delivery_complete_count=v.delivery_complete_count,
        state_batches=_batches(v.state_batches),
        create_ms=v.create_timestamp,
        write_ms=v.write_timestamp,
    )


def _read_update(value: bytes) -> ShareUpdate:
    v: ShareUpdateValue = decode_record(share_update_value, value)
    return ShareUpdate(v.snapshot_epoch, v.leader_epoch, v.start_offset, v.delivery_complete_count, _batches(v.state_batches))


def _batches(
    batches: list[share_snapshot_value.StateBatch] | list[share_update_value.StateBatch],
) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches)
