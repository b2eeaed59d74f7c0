"""The aborted-transaction index of a segment (``.txnindex``): 34 bytes for each transaction, sorted by last offset."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from struct import Struct

import msgspec
from crc32c import crc32c

from ottla.storage.filesystem import File, Filesystem

ENTRY = Struct(">hqqqq")
"""Format of an entry: version, producer id, first and last offset, last stable offset."""
ENTRY_BYTES = ENTRY.size


class AbortedTxn(msgspec.Struct, gc=False, frozen=True):
    """One aborted transaction (AbortedTxn): its first offset, the offset of its marker, and the last stable offset after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _packed(entry: AbortedTxn) -> bytes:
    return ENTRY.pack(0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)


class TxnIndex:
    """The index in memory and its file (TransactionIndex). The file exists only if a transaction was aborted in the segment."""

    __slots__ = ("_entries", "_file", "_fs")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self._file: File = fs.open(path)
        self._entries: list[AbortedTxn] = []

    def load(self, base_offset: int) -> bool:
        """Read the index file. Returns False if it is damaged and must be rebuilt (TransactionIndex.sanityCheck)."""
        if self._file.size == 0:
            return True
        if self._file.size % ENTRY_BYTES:
            return False
        for version, *fields in ENTRY.iter_unpack(self._file.read(self._file.size, 0)):
            entry = AbortedTxn(*fields)
            if version != 0 or entry.last_offset < base_offset:
                return False
            if self._entries and entry.last_offset <= self._entries[-1].last_offset:
                return False
            self._entries.append(entry)
        return True

    @property
    def stored(self) -> int:
        """The number of entries in the index file."""
        return self._file.size // ENTRY_BYTES

    @property
    def file(self) -> File:
        return self._file

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._entries)

    def __reversed__(self) -> Iterator[AbortedTxn]:
        return reversed(self._entries)

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry and write it at once: the last stable offset may pass the marker only after the entry is in the file."""
        self.flush()
        self._file.append(_packed(entry))
        self._entries.append(entry)

    def restore(self, entry: AbortedTxn) -> None:
        """Add an entry that recovery found in the log. `flush` writes it later, because the disk may be full now."""
        self._entries.append(entry)

    def flush(self) -> None:
        """Write the entries that are not in the file yet. Raises OSError, and may then be called again."""
        unwritten = self._entries[self.stored :]
        if unwritten:
            self._file.append(b"".join(map(_packed, unwritten)))

    def take_back(self) -> None:
        """Remove the last entry, because writing its marker failed."""
        self._entries.pop()
        self._file.take_back(self._file.size - ENTRY_BYTES)

    def truncate(self, offset: int) -> None:
        """Remove the entries of transactions whose marker is at or above ``offset``, from the file as well."""
        at = bisect_left(self._entries, offset, key=attrgetter("last_offset"))
        del self._entries[at:]
        if self.stored > at:
            self._file.truncate(at * ENTRY_BYTES)

    def collect(self, fetch_offset: int, upper_bound: int, into: list[AbortedTxn]) -> bool:
        """Add the transactions that overlap [fetch_offset, upper_bound) to ``into``.

        Returns True if no later segment has further such transactions.
        """
        entries = self._entries
        for at in range(bisect_left(entries, fetch_offset, key=attrgetter("last_offset")), len(entries)):
            entry = entries[at]
            if entry.first_offset < upper_bound:
                into.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return True
        return False

    def clear(self) -> None:
        self._entries = []
        self._file.close()
        self._fs.unlink(self._file.path)
        self._file = self._fs.open(self._file.path)


def checksum_of(indexes: Iterable[TxnIndex]) -> int:
    """The CRC of all entries of a log's indexes.

    The files themselves have no CRC, and without an entry consumers would read aborted records as committed.
    """
    checksum = 0
    for index in indexes:
        checksum = int(crc32c(b"".join(map(_packed, index)), checksum))
    return checksum
