"""Reads the batches of a segment's file in pieces, so that memory is bounded by one piece or the largest batch.

`batches` does not check CRCs and stops at the first batch that is not whole. `SoundBatches` also checks each batch, for files that
were not checked before, such as after a crash. `Segment.headers` reads only headers.

A reader that serves or changes a log must not take damaged bytes for the end of a segment: the records after them would be lost
without an error. It raises `DamagedBatch` there, as `Segment.headers` and `Segment.scan` do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MIN_BATCH_LENGTH,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from ottla.storage.filesystem import Damaged, File

PIECE_BYTES = 1 << 20
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
"""The largest distance of an offset from its segment's base: the indexes store the distance in four bytes."""
FIRST_SEARCHED_BYTES = 4096
SEARCHED_BYTES = 256 << 20
"""`whole_batches_behind` stops its search after this number of bytes that look like batches but are not."""

PLACE_BYTES = 1 << 12
"""Minimum number of bytes that count towards `SEARCHED_BYTES` for an examined position: examining it takes longer than the CRC of
that many bytes."""

_LENGTH_AND_MAGIC = Struct(">8xi4xb")
_MAGIC_AT = 16

MayRead = Callable[[int, BatchHeader], bool]
"""Takes position and header of a batch that is larger than a piece; returns whether the batch may be read as a whole."""


class DamagedBatch(KafkaError):
    """Bytes in a log are not a sound batch. A client gets CORRUPT_MESSAGE, as from Apache Kafka.

    Unlike `Damaged`, the error leaves the partition in service, because the records before and after the bytes can still be read.
    ``offset`` is the lowest offset that cannot be read.
    """

    def __init__(self, path: str, position: int, offset: int, reason: str) -> None:
        super().__init__(Code.CORRUPT_MESSAGE, f"{path} is damaged at byte {position}, offset {offset}: {reason}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason

    def as_lasting(self) -> Damaged:
        """The error that takes the partition offline, for readers that cannot continue without the damaged bytes."""
        return Damaged(self.path, f"the file is damaged at byte {self.position}, offset {self.offset}: {self.reason}")


def fault_of(header: BatchHeader, next_offset: int, room_bytes: int) -> str | None:
    """The fault in the header of a batch that must begin at ``next_offset`` or later; None without a fault. Checks no CRC.

    ``room_bytes`` is the number of bytes from the header to the end of the file.
    """
    if header.batch_length < MIN_BATCH_LENGTH or header.size_bytes > room_bytes:
        return f"the batch length is {header.batch_length}"
    if header.magic != 2:
        return f"the magic byte is {header.magic}"
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return f"offset {header.base_offset} follows offset {next_offset - 1}"
    return None


class Piece(NamedTuple):
    """Adjacent whole batches from file position ``position``. Two adjacent ``bounds``, indexes into ``data``, delimit a batch."""

    position: int
    data: bytes
    bounds: list[int]


def pieces(
    file: File,
    position: int = 0,
    end: int | None = None,
    *,
    piece_bytes: int = PIECE_BYTES,
    may_read: MayRead | None = None,
    must_reach_end: bool = False,
) -> Iterator[Piece]:
    """Yield the batches of a file from ``position``, in pieces, up to the first batch that is not whole.

    A damaged length may make a batch appear as long as the rest of the file. So ``may_read`` is called before a batch that is
    larger than a piece is read. With ``must_reach_end`` an incomplete batch raises `Damaged`, for callers that must not ignore the
    bytes after it. The loop ends, because each iteration passes a batch or reads more bytes than before.
    """
    end = file.size if end is None else end
    wanted, is_readable = max(piece_bytes, HEADER_BYTES), True
    unpack = _LENGTH_AND_MAGIC.unpack_from
    while is_readable and end - position >= HEADER_BYTES:
        data = file.read(min(wanted, end - position), position)
        at, last_header = 0, len(data) - HEADER_BYTES
        bounds = [0]
        while at <= last_header:
            length, magic = unpack(data, at)
            if length < MIN_BATCH_LENGTH or magic != 2:
                is_readable = False
                break
            at += LENGTH_OVERHEAD + length
            bounds.append(at)
        if at > len(data):
            bounds.pop()
            at = bounds[-1]
        if at:
            yield Piece(position, data, bounds)
            position += at
        elif is_readable:
            header = read_header(data)
            is_readable = header.size_bytes <= end - position and (may_read is None or may_read(position, header))
            wanted = max(wanted, header.size_bytes)
    if must_reach_end and position < end:
        raise Damaged(file.path, f"the file cannot be read from byte {position} on")


def batches(
    file: File,
    position: int = 0,
    end: int | None = None,
    *,
    piece_bytes: int = PIECE_BYTES,
    may_read: MayRead | None = None,
    must_reach_end: bool = False,
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield position, header and bytes of each batch, as `pieces` reads them. A batch is a memoryview, which keeps its piece in
    memory."""
    for start, data, bounds in pieces(
        file, position, end, piece_bytes=piece_bytes, may_read=may_read, must_reach_end=must_reach_end
    ):
        view = memoryview(data)
        for at, following in pairwise(bounds):
            yield start + at, read_header(view, at), view[at:following]


def headers(file: File, base_offset: int, position: int, window_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch of a segment from a file position. Reads the file in windows, and skips the records
    of large batches.

    Raises `DamagedBatch` for bytes that are not a batch, as far as the header shows.
    """
    end, next_offset = file.size, base_offset
    while position < end:
        raw = file.read(min(window_bytes, end - position), position)
        if len(raw) < HEADER_BYTES:
            raise DamagedBatch(file.path, position, next_offset, f"the last {len(raw)} bytes are too short for a batch")
        at = 0
        while len(raw) - at >= HEADER_BYTES:
            header = read_header(raw, at)
            fault = fault_of(header, next_offset, end - position - at)
            if fault is not None:
                raise DamagedBatch(file.path, position + at, next_offset, fault)
            yield position + at, header
            next_offset = header.next_offset
            at += header.size_bytes
        position += at


class SoundBatches:
    """The batches of a segment's file up to the first that is not sound: incomplete, with a wrong CRC, or out of order.

    Iterate once. Afterwards ``end`` is the file position after the last sound batch, and ``next_offset`` the offset after it.
    ``reason`` describes the fault of the batch at ``end``; None if there is no whole batch. ``damaged_offset`` is the lowest offset
    that the damaged part may contain: if a batch has a lower offset than the batch before it, either of the two may be wrong, and
    ``damaged_offset`` is the lower offset. Memory is bounded even if a length is damaged: a batch that is larger than a piece is
    read as a whole only after its CRC was computed in pieces and is right.
    """

    __slots__ = (
        "_limit",
        "_piece_bytes",
        "_position",
        "_stop",
        "damaged_offset",
        "end",
        "file",
        "is_gapless",
        "next_offset",
        "reason",
    )

    def __init__(
        self, file: File, base_offset: int, position: int = 0, *, piece_bytes: int = PIECE_BYTES, limit: int | None = None
    ) -> None:
        """``base_offset`` is the segment's; ``position`` is the file position of a batch.

        ``limit`` is the base offset of the next segment, below which every batch must end.
        """
        self.file = file
        self._limit = base_offset + MAX_RELATIVE_OFFSET + 1 if limit is None else limit
        # The size is read only once, because a broker may append to the file during the iteration.
        self._stop = file.size
        self.next_offset = self.damaged_offset = base_offset
        self.end = self._position = position
        self.reason: str | None = None
        self.is_gapless = True
        """Whether the sound batches have no gap in their offsets from the segment's base offset. No CRC covers the offsets."""
        self._piece_bytes = piece_bytes

    @property
    def is_whole(self) -> bool:
        """Whether every byte that the file had at the beginning belongs to a sound batch."""
        return self.end == self._stop

    def __iter__(self) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        for position, header, raw in batches(
            self.file, self._position, self._stop, piece_bytes=self._piece_bytes, may_read=self._check_in_pieces
        ):
            if not crc_is_valid(raw, header):
                self.reason = _wrong_crc(header)
                return
            if header.base_offset < self.next_offset or header.last_offset_delta < 0:
                self.reason = f"offset {header.base_offset} follows offset {self.next_offset - 1}"
                self.damaged_offset = min(self.damaged_offset, header.base_offset)
                return
            if header.next_offset > self._limit:
                self.reason = f"offset {header.base_offset} follows offset {self.next_offset - 1}, beyond the range of a segment"
                return
            if header.base_offset != self.next_offset:
                self.is_gapless = False
            self.end, self.next_offset = position + header.size_bytes, header.next_offset
            self.damaged_offset = self.next_offset
            yield position, header, raw

    def damage(self) -> Damaged:
        """The error for callers that must not ignore the bytes after ``end``."""
        because = "" if self.reason is None else f": {self.reason}"
        return Damaged(self.file.path, f"the file cannot be read from byte {self.end} on{because}")

    def damaged_batch(self) -> DamagedBatch:
        """The error at ``end`` for callers that keep the partition in service, unlike `damage`."""
        return DamagedBatch(self.file.path, self.end, self.next_offset, self.reason or "no whole batch")

    def _check_in_pieces(self, position: int, header: BatchHeader) -> bool:
        if _crc_in_pieces(self.file, position, header, self._piece_bytes) == header.crc:
            return True
        self.reason = _wrong_crc(header)
        return False


def _wrong_crc(header: BatchHeader) -> str:
    return f"the batch at offset {header.base_offset} has a wrong CRC"


class WholeBatches(NamedTuple):
    """Number and total size of the whole batches with correct CRCs after damaged bytes."""

    batch_count: int
    size_bytes: int


def whole_batches_behind(file: File, position: int, offset: int) -> WholeBatches:
    """Count the whole batches at or above ``offset`` in a file from a position. Any bytes may be between the batches.

    A crash can leave only the last write to a file incomplete. So whole batches after damaged bytes mean that the bytes were
    damaged later, or that a power cut lost bytes in the middle of the file. In both cases the lost batches had been acknowledged.
    """
    count = size_bytes = 0
    for _, header in whole_batches(file, position, offset):
        count, size_bytes = count + 1, size_bytes + header.size_bytes
    return WholeBatches(count, size_bytes)


def whole_batches(file: File, position: int, offset: int, limit: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch that `whole_batches_behind` counts.

    With ``limit``, yield only batches whose offsets are all below it.
    """
    wasted = 0
    while wasted < SEARCHED_BYTES:
        place = _next_likely(file, position, offset, SEARCHED_BYTES - wasted)
        if place is None:
            return
        position, header, examined_bytes = place
        wasted += examined_bytes
        is_within = limit is None or header.next_offset <= limit
        if is_within and _crc_in_pieces(file, position, header, PIECE_BYTES) == header.crc:
            yield position, header
            position, offset = position + header.size_bytes, header.next_offset
        else:
            wasted += max(header.size_bytes if is_within else 0, PLACE_BYTES)
            position += 1


def _next_likely(file: File, position: int, offset: int, at_most_bytes: int) -> tuple[int, BatchHeader, int] | None:
    """Return the next position that looks like the start of a batch, the header there, and the cost of the search in bytes.

    Each position that was examined in vain costs `PLACE_BYTES`. Returns None if no further position looks like a batch, or if the
    cost reaches ``at_most_bytes``. The first read is small, because the next batch usually begins at ``position``.
    """
    wanted, end, examined_bytes = FIRST_SEARCHED_BYTES, file.size, 0
    magic = _magic_behind(offset)
    while end - position >= HEADER_BYTES:
        data = file.read(min(wanted, end - position), position)
        last_header = len(data) - HEADER_BYTES
        for match in magic.finditer(data, _MAGIC_AT, last_header + _MAGIC_AT + 1):
            at = match.start() - _MAGIC_AT
            header = read_header(data, at)
            if _is_likely(header, offset, end - position - at):
                return position + at, header, examined_bytes
            examined_bytes += PLACE_BYTES
            if examined_bytes >= at_most_bytes:
                return None
        position += last_header + 1
        wanted = min(wanted * 2, PIECE_BYTES)
    return None


def _magic_behind(offset: int) -> re.Pattern[bytes]:
    """A pattern for the magic byte of a header whose base offset may follow ``offset``.

    The pattern also checks the upper half of the base offset, and that the batch length is not negative. Checking each byte of
    value 2 in Python would delay a broker's start by an hour for a gigabyte of such bytes.
    """
    uppers = b"|".join(re.escape(upper.to_bytes(4, "big")) for upper in (offset >> 32, (offset + MAX_RELATIVE_OFFSET) >> 32))
    return re.compile(rb"\x02(?<=(?:" + uppers + rb")[\0-\xff]{4}[\0-\x7f][\0-\xff]{7}\x02)")


def _is_likely(header: BatchHeader, offset: int, room: int) -> bool:
    """Whether a header may be a batch's, by the checks that need no CRC. ``room`` is the number of bytes to the file's end."""
    return (
        MIN_BATCH_LENGTH <= header.batch_length <= room - LENGTH_OVERHEAD
        and offset <= header.base_offset <= offset + MAX_RELATIVE_OFFSET
        and header.last_offset_delta >= 0
    )


def _crc_in_pieces(file: File, position: int, header: BatchHeader, piece_bytes: int) -> int:
    at, end, crc = position + CRC_START, position + header.size_bytes, 0
    while at < end:
        piece = file.read(min(piece_bytes, end - at), at)
        crc = crc32c(piece, crc)
        at += len(piece)
    return crc
