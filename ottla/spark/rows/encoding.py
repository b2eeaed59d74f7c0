"""Encodes columns as record batches, the inverse of `segments.columns`. Arrow joins the encoded fields of each record.

The timestamp of all records is the time at which the task writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.records import TRANSACTIONAL_BIT, BatchHeader, compress, pack_batch
from ottla.spark.errors import PipelineError

Ints = npt.NDArray[np.int64]

NULL_HEADER = "column 'headers' has a header that is null, or has no key: leave it out; its value may be null"
_EMPTY = pa.scalar(b"", pa.binary())
_ZERO = pa.scalar(b"\0", pa.binary())
_LARGEST_OVERHEAD_BYTES = 25


class Encoded(msgspec.Struct, frozen=True):
    """An encoded batch, and the sequence of its first record."""

    sequence: int
    records: int
    data: bytes


class Unsequenced(msgspec.Struct, frozen=True):
    """A batch whose records are encoded and compressed, but whose sequence is not known yet. ``part`` is the index of its
    `PartitionRows`."""

    part: int
    header: BatchHeader
    payload: bytes

    @property
    def records(self) -> int:
        return self.header.record_count

    def at(self, sequence: int) -> Encoded:
        """Return the encoded batch, whose first record has ``sequence``."""
        header = msgspec.structs.replace(self.header, base_sequence=sequence)
        return Encoded(sequence, self.records, bytes(pack_batch(header, self.payload)))


class PartitionRows(msgspec.Struct, frozen=True):
    """The rows of one partition, which begin at row ``start``. ``batch_bytes`` is the maximum batch size."""

    start: int
    batch_bytes: int = 1 << 62


class ProducerIdentity(msgspec.Struct, frozen=True):
    """The producer whose batches are encoded."""

    producer_id: int
    epoch: int
    compression: int


def encode(
    rows: pa.RecordBatch, who: ProducerIdentity, parts: Sequence[PartitionRows], timestamp_ms: int, batch_bytes: int
) -> Iterator[Unsequenced]:
    """Encode batches of about ``batch_bytes`` before compression. ``rows`` has the columns key, value and perhaps headers of
    `segments.reading.COLUMNS`.

    The rows of all partitions are encoded together, because a call of Arrow takes as long as encoding a hundred rows.
    """
    keys, values = (rows.column(name).cast(pa.binary()) for name in ("key", "value"))
    headers = _headers(rows.column("headers")) if "headers" in rows.schema.names else varints(np.zeros(len(rows), np.int64))
    contents_bytes = _lengths(keys) + _lengths(values) + _lengths(headers)
    limits = [*(part.start for part in parts[1:]), len(rows)]
    by_part = [
        _starts(contents_bytes[part.start : limit] + _LARGEST_OVERHEAD_BYTES, min(batch_bytes, part.batch_bytes)) + part.start
        for part, limit in zip(parts, limits, strict=True)
    ]
    starts = np.concatenate(by_part)
    numbers = np.repeat(np.arange(len(parts)), [len(of_part) for of_part in by_part])
    counts = np.diff(np.append(starts, len(rows)))
    offset_deltas = varints(np.arange(len(rows)) - np.repeat(starts, counts))
    key_sizes, value_sizes = _sizes(keys), _sizes(values)
    # A record begins with its length. Joining the record first to measure it would copy keys and values a second time.
    body_bytes = contents_bytes + sum(_lengths(part) for part in (offset_deltas, key_sizes, value_sizes)) + 2 * len(_ZERO.as_py())
    records = _join(varints(body_bytes), _ZERO, _ZERO, offset_deltas, key_sizes, keys, value_sizes, values, headers)
    bounds = _offsets(records)
    data = memoryview(records.buffers()[2])
    for number, start, count in zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True):
        payload = bytes(data[bounds[start] : bounds[start + count]])
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=TRANSACTIONAL_BIT | who.compression,
            last_offset_delta=count - 1,
            base_timestamp_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=-1,
            record_count=count,
        )
        yield Unsequenced(number, header, compress(payload, who.compression))


def _starts(sizes: Ints, batch_bytes: int) -> Ints:
    """Return the index of the first record of each batch. A record that is too large becomes a batch alone."""
    ends = np.cumsum(sizes)
    starts, at = [], 0
    while at < len(sizes):
        starts.append(at)
        limit = (ends[at - 1] if at else 0) + batch_bytes
        at = max(at + 1, int(np.searchsorted(ends, limit, side="right")))
    return np.array(starts, np.int64)


def varints(values: Ints) -> pa.BinaryArray:
    """Encode each number as a zigzag varint."""
    raw = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    sizes = np.ones(len(raw), np.int64)
    rest = raw >> np.uint64(7)
    while rest.any():
        sizes += rest > 0
        rest >>= np.uint64(7)
    bounds = np.zeros(len(raw) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    data = np.empty(int(bounds[-1]), np.uint8)
    for byte in range(int(sizes.max(initial=0))):
        has = sizes > byte
        more = np.where(sizes[has] > byte + 1, np.uint64(0x80), np.uint64(0))
        data[bounds[:-1][has] + byte] = (raw[has] >> np.uint64(7 * byte)) & np.uint64(0x7F) | more
    return pa.BinaryArray.from_buffers(pa.binary(), len(raw), [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    offsets: npt.NDArray[np.int32] = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return offsets


def _lengths(column: pa.Array) -> Ints:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)


def _join(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, _EMPTY, null_handling="replace", null_replacement=b"")


def _sizes(column: pa.Array) -> pa.Array:
    """Encode the length of each string, which is -1 for null."""
    return varints(np.asarray(pc.fill_null(pc.binary_length(column), -1)).astype(np.int64))


def _sized(column: pa.Array) -> pa.Array:
    """Prefix each string with its length."""
    return _join(_sizes(column), column)


def _headers(column: pa.Array) -> pa.Array:
    """Encode the number of headers, and each header. A null list is encoded as an empty list."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    if not counts.any():
        return varints(counts)
    pairs = column.flatten()
    if pairs.null_count or pairs.field("key").null_count:
        raise PipelineError(NULL_HEADER)
    each = _join(_sized(pairs.field("key").cast(pa.binary())), _sized(pairs.field("value").cast(pa.binary())))
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    lists = pa.ListArray.from_arrays(pa.array(bounds), each)
    return _join(varints(counts), pc.binary_join(lists, _EMPTY))
