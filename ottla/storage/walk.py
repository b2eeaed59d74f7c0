"""The one walk over stored batches, piece by piece: a segment of any size costs the memory of a piece, or of its largest batch.

`batches` takes a file as it is and stops at the first batch that is not whole. `SoundBatches` also checks each batch, as a start
after a crash does; it is for files that nobody has checked yet. `Segment.headers` looks batches up without reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

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

_LENGTH_AND_MAGIC = Struct(">8xi4xb")

MayRead = Callable[[int, BatchHeader], bool]
"""Takes the position and the header of a batch that is larger than a piece; whether it may be read as a whole."""


class Piece(NamedTuple):
    """Whole batches as they follow each other in a file from ``position`` on. The batches begin and end at ``bounds``."""

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
    """The batches of a file from a position on, in pieces; ends at the first that is not whole.

    ``may_read`` is asked because the length of a batch may be damaged, and name all the rest of the file. With ``must_reach_end``
    whoever reads may not take what lies behind such a batch for nothing: raises `Damaged` for it.
    Each turn moves on by a batch, or reads more than the last; a read gives all of what is asked for, or raises.
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
        raise Damaged(file.path, f"it cannot be read from byte {position} on")


def batches(
    file: File,
    position: int = 0,
    end: int | None = None,
    *,
    piece_bytes: int = PIECE_BYTES,
    may_read: MayRead | None = None,
    must_reach_end: bool = False,
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch, as `pieces` reads them. A batch is a view that keeps its piece in memory."""
    for start, data, bounds in pieces(
        file, position, end, piece_bytes=piece_bytes, may_read=may_read, must_reach_end=must_reach_end
    ):
        view = memoryview(data)
        for at, following in pairwise(bounds):
            yield start + at, read_header(view, at), view[at:following]


class SoundBatches:
    """The batches of a segment's file up to the first that a start would cut away: torn, with a wrong CRC, or out of order.

    Iterate once. Then ``end`` is the file position behind the last sound batch and ``next_offset`` the offset behind it.
    ``reason`` says what is wrong with the batch at ``end``, None where there is no whole one. Memory is bounded also where a
    length is damaged: a batch that is larger than a piece is read whole only after its CRC was found right, piece by piece.
    """

    __slots__ = ("_piece_bytes", "_position", "end", "file", "next_offset", "reason")

    def __init__(self, file: File, base_offset: int, position: int = 0, *, piece_bytes: int = PIECE_BYTES) -> None:
        """``base_offset`` is the segment's; ``position`` is where a batch begins."""
        self.file = file
        self.next_offset = base_offset
        self.end = self._position = position
        self.reason: str | None = None
        self._piece_bytes = piece_bytes

    @property
    def is_whole(self) -> bool:
        """Whether every byte of the file belongs to a sound batch."""
        return self.end == self.file.size

    def __iter__(self) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        for position, header, raw in batches(
            self.file, self._position, piece_bytes=self._piece_bytes, may_read=self._is_sound_in_pieces
        ):
            if not crc_is_valid(raw, header):
                self.reason = _wrong_crc(header)
                return
            if header.base_offset < self.next_offset or header.last_offset_delta < 0:
                self.reason = f"offset {header.base_offset} after {self.next_offset - 1}"
                return
            self.end, self.next_offset = position + header.size_bytes, header.next_offset
            yield position, header, raw

    def _is_sound_in_pieces(self, position: int, header: BatchHeader) -> bool:
        at, end, crc = position + CRC_START, position + header.size_bytes, 0
        while at < end:
            piece = self.file.read(min(self._piece_bytes, end - at), at)
            crc = crc32c(piece, crc)
            at += len(piece)
        if crc == header.crc:
            return True
        self.reason = _wrong_crc(header)
        return False


def _wrong_crc(header: BatchHeader) -> str:
    return f"the batch at offset {header.base_offset} has a wrong CRC"
