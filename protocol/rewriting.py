"""Batches with fewer records than were sent, for compaction (MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader).

What stays keeps its bytes: offsets and timestamps are deltas from the batch's own, and the batch keeps its base offset, its last
offset, its sequence and its producer. Only a delete horizon, which takes the base timestamp's place, has the deltas written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from protocol.errors import Code, KafkaError
from protocol.inflating import Allowance, pieces
from protocol.primitives import Buffer
from protocol.record_stream import varint, zigzag
from protocol.records import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    compress,
    pack_batch,
)

MAX_PAYLOAD_BYTES = 64 << 20
"""The largest payload that is looked into as a whole."""


class RawRecord(msgspec.Struct, gc=False):
    """Where a record lies in its payload: [start, end) with its length, ``body`` after its timestamp."""

    start: int
    body: int
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def payload_of(batch: Buffer, header: BatchHeader) -> bytes:
    """The records of a batch, inflated. Raises `TooLarge` beyond `MAX_PAYLOAD_BYTES`, and CORRUPT_MESSAGE."""
    raw = memoryview(batch)[HEADER_BYTES:]
    if not header.compression:
        return bytes(raw)
    allowance, found = Allowance(MAX_PAYLOAD_BYTES), bytearray()
    for piece in pieces(raw, header.compression):
        allowance.take(len(piece))
        found += piece
    return bytes(found)


def split(payload: bytes, header: BatchHeader) -> Iterator[RawRecord]:
    """The records one by one. Raises CORRUPT_MESSAGE where the payload is not what the header says."""
    at = 0
    try:
        for _ in range(header.record_count):
            record = _record_at(payload, at)
            at = record.end
            yield record
    except IndexError:
        at = -1
    if at != len(payload):
        raise KafkaError(Code.CORRUPT_MESSAGE, f"no {header.record_count} records in the batch at offset {header.base_offset}")


def _record_at(payload: bytes, start: int) -> RawRecord:
    length, at = varint(payload, start)
    end = at + length
    attributes = payload[at]
    timestamp_delta, body = varint(payload, at + 1)
    offset_delta, at = varint(payload, body)
    key_length, at = varint(payload, at)
    key = None if key_length < 0 else payload[at : at + key_length]
    value_length, after = varint(payload, at + max(key_length, 0))
    if not after + max(value_length, 0) < end <= len(payload):
        raise IndexError
    return RawRecord(start, body, end, attributes, timestamp_delta, offset_delta, key, value_length < 0)


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """When tombstones and a marker in the batch may go; None until the cleaner has seen them once."""
    return header.base_timestamp_ms if header.attributes & DELETE_HORIZON_BIT else None


def keep(header: BatchHeader, payload: bytes, kept: Sequence[RawRecord], horizon_ms: int | None = None) -> bytes:
    """The batch with ``kept`` alone (one at least); ``horizon_ms`` is the delete horizon to set now."""
    attributes, base_ms = header.attributes, header.base_timestamp_ms
    if horizon_ms is None:
        body = b"".join([payload[r.start : r.end] for r in kept])
    else:
        body = b"".join([_moved(payload, r, base_ms - horizon_ms) for r in kept])
        attributes |= DELETE_HORIZON_BIT
    max_ms = header.max_timestamp_ms
    if not attributes & TIMESTAMP_TYPE_BIT:
        max_ms = base_ms + max(r.timestamp_delta for r in kept)
    changed = msgspec.structs.replace(
        header,
        attributes=attributes,
        base_timestamp_ms=base_ms if horizon_ms is None else horizon_ms,
        max_timestamp_ms=max_ms,
        record_count=len(kept),
    )
    return bytes(pack_batch(changed, compress(body, header.compression)))


def _moved(payload: bytes, record: RawRecord, by_ms: int) -> bytes:
    body = bytes((record.attributes,)) + zigzag(record.timestamp_delta + by_ms) + payload[record.body : record.end]
    return zigzag(len(body)) + body


def empty(header: BatchHeader) -> bytes:
    """The batch without any record: it holds the producer's sequence, or the log's last offset, and nothing else."""
    kept = header.attributes & ~(0x07 | DELETE_HORIZON_BIT)
    changed = msgspec.structs.replace(header, attributes=kept, base_timestamp_ms=-1, record_count=0)
    return bytes(pack_batch(changed, b""))
