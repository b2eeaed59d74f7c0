"""Reads a coordinator's log, and skips most records that a later record of the same key replaces, to shorten the broker's start.

A coordinator's log has many records of one key. Only the newest is needed: it has the key's whole state, as compaction assumes. So
a record is held back until a record of the same key replaces it, and may be returned after later records of other keys.

Coordinators usually write one record in each batch, uncompressed and with CreateTime. In such a batch a few bytes give the key's
position, so the batch need not be decoded. All other batches (several records, compressed, transactional, markers) and tombstones,
which also end pending offsets of transactions, are not held back: before such a batch all held batches are returned. So a replay
of the returned batches gives the same state as a replay of all batches, as long as every record can be decoded.
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

# The format of a batch's header: base offset, CRC, attributes, last offset delta, record count. The six bytes after it begin the
# record: its length (one or two bytes), attributes, timestamp delta, offset delta and key length, all variable-length.
_HEAD = Struct(">q9xIhi30xi6B")
_HEAD_BYTES = _HEAD.size
_unpack_head = _HEAD.unpack_from
_KEY_START = 66
PIECE_BYTES = 256 << 10
"""Number of bytes of a file that are read at a time. Searching that many bytes of one-record batches takes about 3 ms."""
_NULL = 1
"""The length -1 as a zigzag varint: the length of a tombstone's value."""


def latest_batches(log: Log, kinds: Collection[int]) -> Iterator[tuple[BatchHeader, Buffer]]:
    """The batches that must be replayed. ``kinds`` are the key versions of records that replace earlier records of the same key.

    Raises `Damaged` if any batch, even a skipped one, cannot be read, has a wrong CRC, or has an offset below the batch before it.
    """
    return (batch for batch in latest_by_piece(log, kinds) if batch is not None)


def latest_by_piece(log: Log, kinds: Collection[int]) -> Iterator[tuple[BatchHeader, Buffer] | None]:
    """Like `latest_batches`, but also yields None after each `PIECE_BYTES` of a file, so that the reader can pause."""
    held: dict[bytes, bytes] = {}
    for released in _released(log, kinds, held):
        if released is None:
            yield None
            continue
        raw, is_plain = released
        if not is_plain:
            yield from _flush_held(held)
        yield read_header(raw), raw
    yield from _flush_held(held)


def _flush_held(held: dict[bytes, bytes]) -> Iterator[tuple[BatchHeader, Buffer]]:
    for raw in held.values():
        yield read_header(raw), raw
    held.clear()


def _released(log: Log, kinds: Collection[int], held: dict[bytes, bytes]) -> Iterator[tuple[bytes, bool] | None]:
    """Store in ``held`` the batches that may be replaced; yield all other batches, and None after each `PIECE_BYTES` of a file.

    The flag of each batch is False if the held batches must be yielded before this batch.
    """
    next_offset = 0
    for segment in log.segments:
        next_offset = max(next_offset, segment.base_offset)
        for position, data, bounds in pieces(segment.log, piece_bytes=PIECE_BYTES, must_reach_end=True):
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
            yield None


def _of_header_alone(data: bytes, at: int) -> tuple[int, ...]:
    """Return the fields of `_HEAD` for a batch that is too short to have all of them.

    Missing fields are zeros, so that the batch is not held back.
    """
    header = read_header(data, at)
    return header.base_offset, header.crc, header.attributes, header.last_offset_delta, 0, 0, 0, 0, 0, 0, 0


def _damage(segment: Segment, position: int, next_offset: int) -> Damaged:
    sound = SoundBatches(segment.log, next_offset, position)
    for _ in sound:
        pass
    return sound.damage()
