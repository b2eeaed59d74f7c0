"""Offset and time index of a segment (org.apache.kafka.storage.internals.log.OffsetIndex and TimeIndex).

Entries are kept in memory, and `flush` writes them to the file later. That is safe, because a start after a crash rebuilds indexes
from the log. Files hold Kafka's big-endian entries, without Kafka's preallocated tail.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain, pairwise
from struct import Struct

from ottla.storage.filesystem import File, Filesystem

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
"""Format of a time index entry: timestamp, then offset. Offsets in both indexes are relative to the segment's base offset."""


class OffsetIndex:
    """Maps relative offsets to file positions, with about one entry every ``index.interval.bytes``."""

    __slots__ = ("_base", "_file", "_fs", "_offsets", "_positions", "_written")

    def __init__(self, fs: Filesystem, path: str, base_offset: int) -> None:
        self._fs = fs
        self._file: File = fs.open(path)
        self._base = base_offset
        self._offsets = array("i")
        self._positions = array("i")
        self._written = 0

    def load(self) -> bool:
        """Read the index file. Returns False if it is not a sound index of this segment and must be rebuilt."""
        size = self._file.size
        if size % OFFSET_ENTRY.size:
            return False
        both = array("i")
        if size:
            both.frombytes(self._file.read(size, 0))
        if sys.byteorder == "little":
            both.byteswap()
        self._offsets, self._positions = both[0::2], both[1::2]
        self._written = len(self._offsets)
        return all(a < b for a, b in zip(self._offsets, self._offsets[1:], strict=False)) and min(self._offsets, default=0) >= 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def stored(self) -> int:
        """The number of entries in the index file."""
        return self._file.size // OFFSET_ENTRY.size

    def is_within(self, size_bytes: int) -> bool:
        """Whether all positions ascend and are inside a log of ``size_bytes``."""
        positions = self._positions
        if not positions:
            return True
        ascending = all(a < b for a, b in pairwise(positions))
        return ascending and positions[0] >= 0 and positions[-1] < size_bytes

    def least_gap_bytes(self) -> int:
        """The smallest distance in bytes between the positions of adjacent entries, counted from position 0; 0 without entries."""
        return min((b - a for a, b in pairwise(chain((0,), self._positions))), default=0)

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * OFFSET_ENTRY.size

    @property
    def file(self) -> File:
        return self._file

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self._base)
        self._positions.append(position)

    @property
    def last(self) -> tuple[int, int]:
        """File position and offset of the newest entry; (0, base offset) without entries."""
        return (self._positions[-1], self._base + self._offsets[-1]) if self._offsets else (0, self._base)

    def lookup(self, offset: int) -> int:
        """The file position in the last entry at or below ``offset``; 0 without such an entry."""
        return self.floor(offset)[1]

    def floor(self, offset: int) -> tuple[int, int]:
        """Return the last entry at or below ``offset``: a batch's last offset and file position; (-1, 0) without such an entry."""
        at = bisect_right(self._offsets, offset - self._base) - 1
        return (self._base + self._offsets[at], self._positions[at]) if at >= 0 else (-1, 0)

    def offset_at_or_after(self, position: int) -> int | None:
        """Offset of the first entry at or after a file position (OffsetIndex.fetchUpperBoundOffset); None without such an entry."""
        at = bisect_left(self._positions, position)
        return self._base + self._offsets[at] if at < len(self._positions) else None

    def position_before(self, position: int) -> int:
        """The largest file position of an entry at or before ``position``; 0 without such an entry."""
        at = bisect_right(self._positions, position) - 1
        return self._positions[at] if at >= 0 else 0

    def truncate(self, offset: int) -> None:
        """Remove the entries at or above ``offset``, from the file as well."""
        at = bisect_left(self._offsets, offset - self._base)
        del self._offsets[at:], self._positions[at:]
        if self._written > at:
            self._file.truncate(at * OFFSET_ENTRY.size)
            self._written = at

    def clear(self) -> None:
        """Remove all entries and the file.

        An empty file would look like a sound index to Apache Kafka, and to a process that reads the files of a running broker.
        """
        self._offsets, self._positions, self._written = array("i"), array("i"), 0
        self._file.close()
        self._fs.unlink(self._file.path)
        self._file = self._fs.open(self._file.path)

    def flush(self) -> None:
        """Write the entries that are not in the file yet. An index without entries gets an empty file. Raises OSError."""
        if not self._offsets:
            self._file.append(b"")
        if self._written < len(self._offsets):
            new = zip(self._offsets[self._written :], self._positions[self._written :], strict=True)
            self._file.append(b"".join(OFFSET_ENTRY.pack(o, p) for o, p in new))
            self._written = len(self._offsets)


class TimeIndex:
    """Maps the largest timestamp so far to the relative offset of its batch. Both ascend from entry to entry."""

    __slots__ = ("_base", "_file", "_offsets", "_timestamps", "_written")

    def __init__(self, fs: Filesystem, path: str, base_offset: int) -> None:
        self._file: File = fs.open(path)
        self._base = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")
        self._written = 0

    def load(self) -> bool:
        size = self._file.size
        if size % TIME_ENTRY.size:
            return False
        entries = list(TIME_ENTRY.iter_unpack(self._file.read(size, 0))) if size else []
        self._timestamps = array("q", (e[0] for e in entries))
        self._offsets = array("i", (e[1] for e in entries))
        self._written = len(entries)
        if min(self._offsets, default=0) < 0 or any(a > b for a, b in pairwise(self._offsets)):
            return False
        return all(a < b for a, b in pairwise(self._timestamps))

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def stored(self) -> int:
        """The number of entries in the index file."""
        return self._file.size // TIME_ENTRY.size

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * TIME_ENTRY.size

    @property
    def file(self) -> File:
        return self._file

    @property
    def last(self) -> tuple[int, int]:
        """Timestamp and offset of the newest entry; (-1, base offset) without entries."""
        if not self._timestamps:
            return -1, self._base
        return self._timestamps[-1], self._base + self._offsets[-1]

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last entry's."""
        if not self._timestamps or timestamp_ms > self._timestamps[-1]:
            self._timestamps.append(timestamp_ms)
            self._offsets.append(offset - self._base)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """Return the last entry with a timestamp below ``timestamp_ms``; (-1, base offset) without such an entry.

        Records with later timestamps are at or after the entry's offset.
        """
        at = bisect_left(self._timestamps, timestamp_ms) - 1
        return (self._timestamps[at], self._base + self._offsets[at]) if at >= 0 else (-1, self._base)

    def truncate(self, offset: int) -> None:
        """Remove the entries at or above ``offset``, from the file as well."""
        at = bisect_left(self._offsets, offset - self._base)
        del self._offsets[at:], self._timestamps[at:]
        if self._written > at:
            self._file.truncate(at * TIME_ENTRY.size)
            self._written = at

    def clear(self) -> None:
        self._timestamps, self._offsets, self._written = array("q"), array("i"), 0
        if self._file.size:
            self._file.truncate(0)

    def flush(self) -> None:
        if self._written < len(self._offsets):
            new = zip(self._timestamps[self._written :], self._offsets[self._written :], strict=True)
            self._file.append(b"".join(TIME_ENTRY.pack(t, o) for t, o in new))
            self._written = len(self._offsets)
