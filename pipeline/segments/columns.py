"""Records as Arrow columns. Only the way from record to record is walked; all that is in them is read by vectors.

A record (KIP-98): length, attributes, timestamp delta, offset delta, key, value, headers; every number a zigzag varint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode

from protocol.records import HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchHeader

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_DECODERS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
_MARGIN = b"\0" * 16
"""Behind the last record, so that a number which is cut off ends."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Malformed(Exception):
    """The bytes are no records."""


class Records:
    """The records of some batches of one partition, and columns of them on demand.

    Raises `Malformed` for records that do not fill their batch, whatever its CRC says.
    """

    def __init__(self, batches: Sequence[tuple[BatchHeader, memoryview]]) -> None:
        payloads = [_payload(header, raw) for header, raw in batches]
        self._data = b"".join((*payloads, _MARGIN))
        self._bytes = np.frombuffer(self._data, np.uint8)
        headers = [header for header, _ in batches]
        counts = np.array([h.record_count for h in headers], np.int64)
        self._starts, self._ends = self._walk(headers, payloads)

        def spread(values: list[int]) -> Ints:
            found: Ints = np.repeat(np.array(values, np.int64), counts)
            return found

        _, at = self._varints(self._starts)
        delta, at = self._varints(at + 1)
        is_append_time = np.repeat(np.array([bool(h.attributes & TIMESTAMP_TYPE_BIT) for h in headers]), counts)
        self.timestamp_types = is_append_time.astype(np.int32)
        self.timestamps_ms = np.where(
            is_append_time, spread([h.max_timestamp_ms for h in headers]), spread([h.base_timestamp_ms for h in headers]) + delta
        )
        delta, at = self._varints(at)
        self.offsets = spread([h.base_offset for h in headers]) + delta
        self._keys, at = self._slices(at, self._ends)
        self._values, self._behind_values = self._slices(at, self._ends)

    def __len__(self) -> int:
        return len(self._starts)

    def _walk(self, headers: Sequence[BatchHeader], payloads: Sequence[bytes | memoryview]) -> tuple[Ints, Ints]:
        """Where each record begins with its length, and where it ends; checks that a batch's records fill it."""
        data, at = self._data, 0
        starts: list[int] = []
        ends: list[int] = []
        append = starts.append
        for header, payload in zip(headers, payloads, strict=True):
            end = at + len(payload)
            for _ in range(header.record_count):
                append(at)
                size = data[at]
                if size < 0x80:
                    at += 1 + (size >> 1)
                else:
                    second = data[at + 1]
                    if second < 0x80:
                        at += 2 + ((size & 0x7F | second << 7) >> 1)
                    else:
                        at = _after_long(data, at)
                if at > end:
                    raise Malformed(f"a record of the batch at offset {header.base_offset} is longer than the batch")
                ends.append(at)
            if at != end:
                raise Malformed(f"the batch at offset {header.base_offset} holds {end - at} bytes behind its records")
        return np.array(starts, np.int64), np.array(ends, np.int64)

    def _varints(self, at: Ints) -> tuple[Ints, Ints]:
        """The zigzag numbers at some positions, and the positions behind them."""
        data = self._bytes
        byte = data[at]
        value = (byte & 0x7F).astype(np.int64)
        behind = at + 1
        more = np.flatnonzero(byte & 0x80)
        shift = 7
        while more.size:
            if shift > 63:
                raise Malformed("a number of more than ten bytes")
            byte = data[behind[more]]
            value[more] |= (byte & 0x7F).astype(np.int64) << shift
            behind[more] += 1
            more = more[byte >= 0x80]
            shift += 7
        return (value >> 1) ^ -(value & 1), behind

    def _slices(self, at: Ints, record_ends: Ints) -> tuple[tuple[Ints, Ints, Bools], Ints]:
        """Byte strings: first byte, the one behind, whether there is one; and the positions behind them."""
        size, start = self._varints(at)
        is_there = size >= 0
        end = start + np.where(is_there, size, 0)
        if (end > record_ends).any():
            raise Malformed("a key, a value or a header is longer than its record")
        return (start, end, is_there), end

    def keys(self, kept: Ints) -> pa.Array:
        return self._binary(self._keys, kept)

    def values(self, kept: Ints) -> pa.Array:
        return self._binary(self._values, kept)

    def _binary(self, slices: tuple[Ints, Ints, Bools], kept: Ints) -> pa.Array:
        """Arrow takes the strings out of the records: each is an element, and so is what lies between two of them."""
        start, end, is_there = slices
        if not len(start):
            return pa.array([], pa.binary())
        bounds = np.empty(2 * len(start), np.int32)
        bounds[0::2], bounds[1::2] = start, end
        valid = None
        if not is_there.all():
            marks = np.ones(len(bounds) - 1, np.bool_)
            marks[0::2] = is_there
            valid = pa.array(marks).buffers()[1]
        between = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, [valid, pa.py_buffer(bounds), pa.py_buffer(self._data)])
        return between.take(pa.array(2 * kept))

    def headers(self, kept: Ints) -> pa.Array:
        """A list of (key, value) for each record."""
        counts, at = self._varints(self._behind_values)
        if (counts < 0).any():
            raise Malformed("a record with less than no headers")
        rounds: list[tuple[Ints, Ints, tuple[Ints, Ints, Bools], tuple[Ints, Ints, Bools]]] = []
        left = np.flatnonzero(counts)
        at = at[left]
        number = 0
        while left.size:
            key, at = self._slices(at, self._ends[left])
            value, at = self._slices(at, self._ends[left])
            rounds.append((left, np.full(len(left), number), key, value))
            number += 1
            more = counts[left] > number
            left, at = left[more], at[more]
        bounds = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        if not rounds:
            names = pa.array([], pa.string())
            contents = pa.array([], pa.binary())
        else:
            order = np.lexsort((np.concatenate([r[1] for r in rounds]), np.concatenate([r[0] for r in rounds])))

            def ordered(which: int) -> tuple[Ints, Ints, Bools]:
                a, b, c = (np.concatenate([r[which][part] for r in rounds])[order] for part in range(3))
                return a, b, c

            everything = np.arange(len(order))
            names = _as_text(self._binary(ordered(2), everything))
            contents = self._binary(ordered(3), everything)
        pairs = pa.StructArray.from_arrays([names, contents], ["key", "value"])
        lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pairs)
        return lists if len(kept) == len(counts) else lists.take(pa.array(kept))


def _payload(header: BatchHeader, raw: memoryview) -> bytes | memoryview:
    body = raw[HEADER_BYTES:]
    if not header.compression:
        return body
    decode = _DECODERS.get(header.compression)
    if decode is None:
        raise Malformed(f"the batch at offset {header.base_offset} has the unknown compression {header.compression}")
    try:
        found: bytes = decode(body)
    except Exception as error:  # each codec has kinds of its own
        raise Malformed(f"the batch at offset {header.base_offset} cannot be decompressed: {error}") from error
    return found


def _as_text(found: pa.Array) -> pa.Array:
    """As Java reads it: what is no UTF-8 becomes the replacement character."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if v is None else v.decode("utf-8", "replace") for v in found.to_pylist()], pa.string())


def _after_long(data: bytes, at: int) -> int:
    """Behind a record whose length takes three bytes or more."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + (value >> 1)
        shift += 7
        if shift > 28:
            raise Malformed("a record of more than 2 GiB")
