"""Rewrites a batch without some of its records, for compaction (MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader).

The records that stay keep their bytes: their offsets and timestamps are deltas to base offset and base timestamp, and the batch
keeps its base offset, last offset, sequence and producer. Only a delete horizon changes the records: it replaces the base
timestamp, so the timestamp deltas are rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ottla.protocol.deflating import Deflated
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import PIECE_BYTES
from ottla.protocol.record_stream import varint, zigzag
from ottla.protocol.records import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    pack_batch,
)


class RawRecord(msgspec.Struct, gc=False):
    """A record's fields and its range in the payload: [start, end) with the length prefix. ``body`` follows the timestamp."""

    start: int
    body: int
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def split(records: bytes, count: int) -> Iterator[RawRecord]:
    """Yield the ``count`` records in ``records``. Raises CORRUPT_MESSAGE if they do not fill ``records`` exactly."""
    at = 0
    try:
        for _ in range(count):
            record = _record_at(records, at)
            at = record.end
            yield record
    except IndexError:
        at = -1
    if at != len(records):
        raise KafkaError(Code.CORRUPT_MESSAGE, "a record's fields do not match its length")


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
    """The time in ms from which tombstones or a marker in the batch may be removed; None before the cleaner's first pass."""
    return header.base_timestamp_ms if header.attributes & DELETE_HORIZON_BIT else None


class RewrittenBatch:
    """Builds a batch of the records that stay, which the caller adds one by one. The compression does not change.

    ``horizon_ms`` is the delete horizon to set, or None. The horizon replaces the base timestamp, so each timestamp delta is
    rewritten.
    """

    __slots__ = ("_header", "_horizon_ms", "_payload", "_waiting")

    def __init__(self, header: BatchHeader, horizon_ms: int | None) -> None:
        self._header = header
        self._horizon_ms = horizon_ms
        self._payload = Deflated(header.compression)
        self._waiting = bytearray()

    def add(self, records: bytes, record: RawRecord) -> None:
        self._waiting += self._moved(records, record.start, record.end)

    def add_head(self, head: bytes, size: int) -> None:
        """Add the first bytes of a record of ``size`` bytes. `add_part` adds the other bytes."""
        self._waiting += self._moved(head, 0, size)

    def add_part(self, part: bytes) -> None:
        self._waiting += part

    def _moved(self, records: bytes, start: int, end: int) -> bytes:
        if self._horizon_ms is None:
            return records[start:end]
        _, attributes = varint(records, start)
        delta, body = varint(records, attributes + 1)
        head = records[attributes : attributes + 1] + zigzag(delta + self._header.base_timestamp_ms - self._horizon_ms)
        return zigzag(len(head) + end - body) + head + records[body:end]

    @property
    def is_full(self) -> bool:
        """Whether at least `PIECE_BYTES` of added records are not compressed yet. If so, the caller should call `compress`."""
        return len(self._waiting) >= PIECE_BYTES

    def compress(self) -> None:
        """Compress the records added since the last call, in C code that releases the GIL, so that a worker thread may run it."""
        waiting, self._waiting = self._waiting, bytearray()
        self._payload.add(waiting)

    def batch(self, record_count: int, max_timestamp_delta_ms: int) -> bytes:
        """The finished batch, with base offset, last offset, sequence and producer of the original batch."""
        header, horizon_ms = self._header, self._horizon_ms
        self.compress()
        max_timestamp_ms = header.max_timestamp_ms
        if not header.attributes & TIMESTAMP_TYPE_BIT:
            max_timestamp_ms = header.base_timestamp_ms + max_timestamp_delta_ms
        changed = msgspec.structs.replace(
            header,
            attributes=header.attributes if horizon_ms is None else header.attributes | DELETE_HORIZON_BIT,
            base_timestamp_ms=header.base_timestamp_ms if horizon_ms is None else horizon_ms,
            max_timestamp_ms=max_timestamp_ms,
            record_count=record_count,
        )
        return bytes(pack_batch(changed, self._payload.end()))


def empty(header: BatchHeader) -> bytes:
    """The batch without records. It is kept for the producer's sequence, or so that its offsets remain in the log."""
    kept = header.attributes & ~(0x07 | DELETE_HORIZON_BIT)
    changed = msgspec.structs.replace(header, attributes=kept, base_timestamp_ms=-1, record_count=0)
    return bytes(pack_batch(changed, b""))
