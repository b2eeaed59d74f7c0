"""Decodes records to Arrow columns. Only the positions of records are found one by one; all else is vector operations.

A record (KIP-98) consists of length, attributes, timestamp delta, offset delta, key, value and headers. Every number is a zigzag
varint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.protocol.errors import KafkaError
from ottla.protocol.inflating import Allowance, pieces
from ottla.protocol.records import HEADER_BYTES, MAX_COMPRESSION, TIMESTAMP_TYPE_BIT, BatchHeader

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_PAYLOAD_BYTES = 1 << 30
"""Maximum size of a decompressed batch, in bytes. The columns of a larger batch would not fit into a task's memory."""
_MARGIN = b"\0" * 16
"""Zero bytes that are added after the last record, to terminate a truncated varint."""
ABREAST = 8
"""Minimum number of batches whose records are searched together. Fewer batches are faster one after the other."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _steps() -> Ints:
    """Return a table from the first two bytes of a record (little-endian) to the record's size in bytes with the length field.

    If the length has more than two bytes, the entry is 1 << 40, which is larger than any batch: the caller must decode the length.
    """
    both = np.arange(1 << 16)
    first, second = both & 0xFF, both >> 8
    of_two = np.where(second < 0x80, 2 + ((first & 0x7F | second << 7) >> 1), 1 << 40)
    return np.where(first < 0x80, 1 + (first >> 1), of_two)


_STEPS = _steps()


class Malformed(Exception):
    """The bytes of a batch are not valid records."""


class Records:
    """The records of several batches of one partition. Columns are decoded on demand.

    Raises `Malformed` if the records do not fill their batch exactly, even if its CRC is right.
    """

    def __init__(self, batches: Sequence[tuple[BatchHeader, memoryview]]) -> None:
        payloads = [_payload(header, raw) for header, raw in batches]
        self._data = b"".join((*payloads, _MARGIN))
        self._bytes = np.frombuffer(self._data, np.uint8)
        headers = [header for header, _ in batches]
        counts = np.array([h.record_count for h in headers], np.int64)
        sizes = np.array([len(p) for p in payloads], np.int64)
        for header, count, size in zip(headers, counts, sizes, strict=True):
            if not 0 <= count <= size:
                raise Malformed(f"the batch at offset {header.base_offset} has {size} bytes for {count} records")
        self._starts, self._ends = self._walk(headers, counts, sizes)

        def spread(values: list[int]) -> Ints:
            per_record: Ints = np.repeat(np.array(values, np.int64), counts)
            return per_record

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

    def _walk(self, headers: Sequence[BatchHeader], counts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
        """Return the position of each record's length field, and of each record's end. Raises `Malformed` if the records of a batch
        do not fill the batch."""
        behind = np.cumsum(sizes)
        bases = np.cumsum(counts) - counts
        starts = np.empty(int(counts.sum()), np.int64)
        at, done = self._walk_abreast(starts, behind - sizes, behind, bases, counts)
        for batch in np.flatnonzero(counts > done).tolist():
            first, last = int(bases[batch] + done), int(bases[batch] + counts[batch])
            starts[first:last], at[batch] = self._walk_one(int(at[batch]), int(behind[batch]), last - first)
        unfilled = np.flatnonzero(at != behind)
        if unfilled.size:
            batch = int(unfilled[0])
            left = behind[batch] - at[batch]
            why = f"has {left} bytes after its records" if left > 0 else "has a record that is longer than the batch"
            raise Malformed(f"the batch at offset {headers[batch].base_offset} {why}")
        ends = np.append(starts[1:], 0)
        ends[(bases + counts - 1)[counts > 0]] = behind[counts > 0]
        return starts, ends

    def _walk_abreast(self, starts: Ints, at: Ints, behind: Ints, bases: Ints, counts: Ints) -> tuple[Ints, int]:
        """Find the next record of all batches at once, as long as `ABREAST` batches have more records. Stores the records'
        positions in ``starts``.

        Returns the position in each batch, and the number of records that were found in each. If a record is longer than its batch,
        the position is one byte after the batch.
        """
        twos: npt.NDArray[np.uint16] = np.ndarray((len(self._data) - 1,), "<u2", self._data, strides=(1,))
        order = np.argsort(-counts, kind="stable")
        at, behind, bases, left = at[order], behind[order], bases[order], counts[order].tolist()
        done, batches = 0, len(order)
        while batches >= ABREAST:
            if left[batches - 1] <= done:
                batches -= 1
                continue
            here, ends = at[:batches], behind[:batches]
            starts[bases[:batches] + done] = here
            there = here + _STEPS[twos[here]]
            beyond = there > ends
            if beyond.any():
                for batch in np.flatnonzero(beyond).tolist():
                    there[batch] = min(_after(self._data, int(here[batch])), ends[batch] + 1)
            at[:batches] = there
            done += 1
        positions = np.empty_like(at)
        positions[order] = at
        return positions, done

    def _walk_one(self, at: int, behind: int, count: int) -> tuple[Ints, int]:
        """Return the starts of the remaining records of one batch, and the end of the last record, at most one byte after the
        batch."""
        data = self._data
        starts = []
        for _ in range(count):
            starts.append(at)
            size = data[at]
            if size < 0x80:
                at += 1 + (size >> 1)
            else:
                second = data[at + 1]
                at = at + 2 + ((size & 0x7F | second << 7) >> 1) if second < 0x80 else _after(data, at)
            if at > behind:
                at = behind + 1
        return np.array(starts, np.int64), at

    def _varints(self, at: Ints) -> tuple[Ints, Ints]:
        """Decode the zigzag varints at the given positions. Also returns the positions after the varints."""
        data = self._bytes
        byte = data[at]
        value = (byte & 0x7F).astype(np.int64)
        behind = at + 1
        more = np.flatnonzero(byte & 0x80)
        shift = 7
        while more.size:
            if shift > 63:
                raise Malformed("a varint has more than ten bytes")
            byte = data[behind[more]]
            value[more] |= (byte & 0x7F).astype(np.int64) << shift
            behind[more] += 1
            more = more[byte >= 0x80]
            shift += 7
        return (value >> 1) ^ -(value & 1), behind

    def _slices(self, at: Ints, record_ends: Ints) -> tuple[tuple[Ints, Ints, Bools], Ints]:
        """Decode length-prefixed strings. Returns, for each string, its start, its end, and whether it is not null. Also returns
        the positions after the strings."""
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
        """Return the strings as an Arrow array without copying. The underlying array also has elements for the bytes between two
        strings."""
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
        """Return a list of (key, value) for each record. The list of a record without headers is empty, and not null as in Spark's
        Kafka connector, because Arrow's writer in the JVM needs quadratic time for null lists (see `rows.Outgoing`)."""
        counts, at = self._varints(self._behind_values)
        if (counts < 0).any():
            raise Malformed("a record has a negative number of headers")
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
    if header.compression > MAX_COMPRESSION:
        raise Malformed(f"the batch at offset {header.base_offset} has the unknown compression {header.compression}")
    allowance, inflated = Allowance(MAX_PAYLOAD_BYTES), []
    try:
        for piece in pieces(body, header.compression):
            allowance.take(len(piece))
            inflated.append(piece)
    except KafkaError as error:
        raise Malformed(f"the batch at offset {header.base_offset} cannot be decompressed: {error.message}") from error
    return b"".join(inflated)


def _as_text(binary: pa.Array) -> pa.Array:
    """Decode text like Java: invalid UTF-8 becomes the replacement character."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if v is None else v.decode("utf-8", "replace") for v in binary.to_pylist()], pa.string())


def _after(data: bytes, at: int) -> int:
    """Return the position after the record at ``at``. The record's length may have any number of bytes."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + (value >> 1)
        shift += 7
        if shift > 28:
            raise Malformed("a record has more than 2 GiB")
