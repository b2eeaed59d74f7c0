"""Leaves out of a coordinator's log what a later record of the same key says anew, so that a start need not decode it.

A coordinator's log holds many records of one key, and a start needs the last of them only. This is what compaction would leave of
the log, and allowed for the same reason: the newest record of a key says everything. So a record is held back until one of the
same key takes its place, and may come out later than records of other keys that were written after it.

Coordinators write one record a batch, and neither compress it nor stamp it: then the key stands at a place that a few bytes of
the batch tell. Every other batch (several records, compressed, of a transaction, a marker) comes out as it stands, and so does a
tombstone, which also ends what transactions have pending; before each of them comes all that was held back. So a replay of what
comes out gives the state that a replay of everything gives, as long as every record can be decoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from struct import Struct

from crc32c import crc32c

from ottla.protocol.primitives import Buffer
from ottla.protocol.records import CRC_START, BatchHeader, read_header
from ottla.storage.filesystem import Damaged
from ottla.storage.log import Log
from ottla.storage.segment import Segment
from ottla.storage.walk import SoundBatches, pieces

# Of the header: base offset, CRC, attributes, last offset delta, record count. Of the record: its length in one or two bytes,
# attributes, timestamp delta, offset delta, length of the key, all variable-length.
_HEAD = Struct(">q9xIhi30xi6B")
_HEAD_BYTES = _HEAD.size
_unpack_head = _HEAD.unpack_from
_KEY_START = 66
_NULL = 1
"""A length of -1 in zigzag code: that of a tombstone's value."""


def latest_batches(log: Log, kinds: Collection[int]) -> Iterator[tuple[BatchHeader, Buffer]]:
    """The batches that a replay needs. ``kinds`` are the versions in the keys of records that replace the one before.

    Raises `Damaged` where a batch cannot be read, has a wrong CRC, or an offset below the one before: also of those left out.
    """
    held: dict[bytes, bytes] = {}
    for raw, is_plain in _released(log, kinds, held):
        if not is_plain:
            yield from _flush_held(held)
        yield read_header(raw), raw
    yield from _flush_held(held)


def _flush_held(held: dict[bytes, bytes]) -> Iterator[tuple[BatchHeader, Buffer]]:
    for raw in held.values():
        yield read_header(raw), raw
    held.clear()


def _released(log: Log, kinds: Collection[int], held: dict[bytes, bytes]) -> Iterator[tuple[bytes, bool]]:
    """Hold back what may be replaced; give the others, and whether they leave alone what is held."""
    next_offset = 0
    for segment in log.segments:
        next_offset = max(next_offset, segment.base_offset)
        for position, data, bounds in pieces(segment.log, must_reach_end=True):
            view = memoryview(data)
            for at, following in pairwise(bounds):
                if following - at < _HEAD_BYTES:
                    base_offset, crc, attributes, last_delta, count, b0, b1, b2, b3, b4, b5 = _of_header_alone(data, at)
                else:
                    base_offset, crc, attributes, last_delta, count, b0, b1, b2, b3, b4, b5 = _unpack_head(data, at)
                if crc32c(view[at + CRC_START : following]) != crc or base_offset < next_offset or last_delta < 0:
                    raise _damage(segment, position + at, next_offset)
                next_offset = base_offset + last_delta + 1
                key_start, key_length = at + _KEY_START, -1
                if attributes == 0 and count == 1:
                    if b0 < 128:
                        if not b1 | b2 | b3:
                            key_length = b4
                    elif b1 < 128 and not b2 | b3 | b4:
                        key_start, key_length = key_start + 1, b5
                if 0 < key_length < 128 and not key_length & 1:
                    key_end = key_start + (key_length >> 1)
                    if key_end < following and data[key_end] != _NULL:
                        if data[key_start + 1] in kinds:
                            held[data[key_start:key_end]] = data[at:following]
                        else:
                            yield data[at:following], True
                        continue
                yield data[at:following], False


def _of_header_alone(data: bytes, at: int) -> tuple[int, ...]:
    """As the fields of a longer batch are; of its records this one has too few bytes to be plain."""
    header = read_header(data, at)
    return header.base_offset, header.crc, header.attributes, header.last_offset_delta, 0, 0, 0, 0, 0, 0, 0


def _damage(segment: Segment, position: int, next_offset: int) -> Damaged:
    sound = SoundBatches(segment.log, next_offset, position)
    for _ in sound:
        pass
    return sound.damage()
