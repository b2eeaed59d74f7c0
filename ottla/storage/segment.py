"""One segment: ``.log`` with its indexes (org.apache.kafka.storage.internals.log.LogSegment)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

from ottla.protocol.primitives import Buffer
from ottla.protocol.records import HEADER_BYTES, BatchHeader, crc_is_valid, read_header
from ottla.storage.checkpoints import MAX_OFFSET
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged, File, Filesystem, sync_dir, sync_file
from ottla.storage.indexes import OffsetIndex, TimeIndex
from ottla.storage.txn_index import TxnIndex
from ottla.storage.unchecked import Unchecked
from ottla.storage.walk import MAX_RELATIVE_OFFSET, PIECE_BYTES, DamagedBatch, SoundBatches, headers

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
LOOKUP_BYTES = 1 << 15
MAX_ABORTED = 1 << 20
"""Maximum number of entries with which a transaction index is read even if its segment has fewer batches."""


OnBatch = Callable[[BatchHeader, memoryview], None]

_FILE_NAME = re.compile(r"([0-9]{20})(\..+)", re.ASCII)


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str, suffix: str) -> int | None:
    """The offset in a file's name; None if the name is not an offset of 20 digits and this suffix."""
    parts = _FILE_NAME.fullmatch(name)
    if parts is None or parts[2] != suffix or int(parts[1]) > MAX_OFFSET:
        return None
    return int(parts[1])


def astray(path: str, entry: str) -> Damaged:
    """The error for an index that does not match its log. Either of the two may be damaged."""
    return Damaged(path, f"the entry of {entry} points to a wrong position; remove the index file, and the next start rebuilds it")


class Recovered(NamedTuple):
    """The sound part of a segment: the offset and the byte at which it ends, and the fault there.

    ``reason`` is None if the whole segment is sound. ``damaged_offset`` is the lowest offset that the damaged part may contain.
    """

    next_offset: int
    size_bytes: int
    reason: str | None
    damaged_offset: int


class Segment:
    """The batches of a log from ``base_offset``. An append writes the log's file at once; `flush_indexes` writes the indexes."""

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_fs",
        "_suffix",
        "_unchecked",
        "base_offset",
        "created_ms",
        "damage",
        "first_timestamp_ms",
        "is_behind",
        "log",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offset_index",
        "time_index",
        "txn_index",
    )

    def __init__(self, fs: Filesystem, directory: str, base_offset: int, now_ms: int, suffix: str = "") -> None:
        self._fs = fs
        self._directory = directory
        self._suffix = suffix
        self.base_offset = base_offset
        self.created_ms = now_ms
        self.first_timestamp_ms = -1
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self.is_behind = False
        """Whether recovery has rebuilt the indexes in memory, and their files may lack entries."""
        self.damage: DamagedBatch | None = None
        """The first damaged batch that a reader has found in this segment."""
        self._unchecked = Unchecked(0)
        self.log: File = fs.open(self.path(LOG_SUFFIX))
        self.offset_index = OffsetIndex(fs, self.path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(fs, self.path(TIME_INDEX_SUFFIX), base_offset)
        self.txn_index = TxnIndex(fs, self.path(TXN_INDEX_SUFFIX))

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{self._suffix}"

    @property
    def size_bytes(self) -> int:
        return self.log.size

    # writing batches

    def append(self, batch: Buffer, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int) -> None:
        position = self.log.size
        self.log.append(batch)
        self._note(position, len(batch), last_offset, max_timestamp_ms, index_interval_bytes)

    def _note(self, position: int, size: int, last_offset: int, max_timestamp_ms: int, interval: int) -> None:
        if self.first_timestamp_ms < 0:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self._bytes_since_index > interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += size

    def should_roll(self, size: int, last_offset: int, timestamp_ms: int, now_ms: int, config: LogConfig) -> bool:
        """Whether the next batch of ``size`` bytes must go into a new segment (LogSegment.shouldRoll).

        The reasons are size, age, full indexes, and an offset whose distance from the base does not fit into four bytes.
        """
        size_bytes = self.log.size
        if size_bytes == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        if size_bytes > config.segment_bytes - size:
            return True
        since = timestamp_ms - self.first_timestamp_ms if self.first_timestamp_ms >= 0 else now_ms - self.created_ms
        if (since > config.segment_ms or since > config.max_compaction_lag_ms) and since > config.max_segment_ms:
            return True
        # An index entry is smaller than its batch, so while the log's file is smaller than the indexes' size limit, no index is
        # full.
        full = config.segment_index_bytes
        if size_bytes > full and (self.offset_index.size_bytes + 8 > full or self.time_index.size_bytes + 12 > full):
            return True
        return last_offset - self.base_offset > MAX_RELATIVE_OFFSET

    def flush_indexes(self) -> None:
        """Write the indexes, including the last time index entry of a closed segment (onBecomeInactiveSegment).

        First cuts off surplus bytes of failed writes. Raises OSError, and may then be called again.
        """
        for file in self.files():
            file.cut_surplus()
        if self.log.size:
            self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        # The time index is written last, because the next start recovers a segment whose time index is empty.
        self.txn_index.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.is_behind = False

    def sync_transactions(self) -> None:
        """Sync the transaction index. May run in a worker thread."""
        with suppress(FileNotFoundError):
            sync_file(self._fs, self.txn_index.file.path)
            sync_dir(self._fs, self._directory)

    def sync(self) -> None:
        self.log.sync()
        self.offset_index.file.sync()
        self.time_index.file.sync()
        self.txn_index.file.sync()

    # reading batches

    def scan(
        self, position: int = 0, *, piece_bytes: int = PIECE_BYTES, limit: int | None = None
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield position, header and bytes of each batch from a file position. Checks CRCs, and raises `DamagedBatch`.

        ``limit`` is the offset at which the next segment begins.
        """
        sound = SoundBatches(self.log, self.base_offset, position, piece_bytes=piece_bytes, limit=limit)
        yield from sound
        if not sound.is_whole:
            with self._noting_damage():
                raise sound.damaged_batch()

    def position_of(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return the file position and header of the first batch whose last offset is at or above ``offset``.

        None if the segment has no such batch. Raises `DamagedBatch` if the log is damaged before that batch, and `Damaged` if an
        index entry does not match the batch at its position: a wrong entry would hide batches.
        """
        for position, header in self._headers_near(offset):
            if header.last_offset >= offset:
                return position, header
        return None

    def _headers_near(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each batch from the last index entry at or below ``offset``. Raises as `position_of`."""
        indexed, start = self.offset_index.floor(offset)
        found = headers(self.log, self.base_offset, start, LOOKUP_BYTES)
        if indexed >= 0:
            first = None
            with suppress(DamagedBatch):
                first = next(found, None)
            if first is None or first[1].last_offset != indexed:
                self._blame(indexed, start)
            yield first
        with self._noting_damage():
            yield from found

    def _blame(self, indexed: int, position: int) -> NoReturn:
        """Raise `DamagedBatch` for damage between the previous index entry and a position, else `Damaged` for a wrong entry."""
        _, start = self.offset_index.floor(indexed - 1)
        next((at for at, _ in self.headers(start) if at >= position), None)
        raise astray(self.offset_index.file.path, f"offset {indexed}")

    def readable_bytes(self, position: int, size: int, offsets: range, most_checks: int) -> tuple[int, int]:
        """Return the numbers of readable bytes and of checked batches (`Unchecked.readable_bytes`). Raises `DamagedBatch`."""
        with self._noting_damage():
            return self._unchecked.readable_bytes(self.log, position, size, offsets, most_checks)

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except DamagedBatch as damage:
            self.note_damage(damage)
            raise

    def note_damage(self, damage: DamagedBatch) -> None:
        """Keep a copy of the first damage that is found. The raised exception itself would keep its stack frames in memory."""
        self.damage = self.damage or DamagedBatch(damage.path, damage.position, damage.offset, damage.reason)

    def offset_below(self, timestamp_ms: int) -> int:
        """The offset at which to begin a search for a record at or after ``timestamp_ms``. Raises the errors of `position_of`."""
        timestamp, offset = self.time_index.lookup(timestamp_ms)
        if timestamp >= 0 and not self._has_timestamp(timestamp, offset):
            raise astray(self.time_index.file.path, f"timestamp {timestamp}")
        return offset

    def _has_timestamp(self, timestamp_ms: int, offset: int) -> bool:
        """Whether ``timestamp_ms`` is the largest timestamp of the batch at an offset. Raises the errors of `position_of`."""
        place = self.position_of(offset)
        return place is not None and place[1].max_timestamp_ms == timestamp_ms

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each batch from a file position (`walk.headers`). Raises `DamagedBatch`."""
        with self._noting_damage():
            yield from headers(self.log, self.base_offset, position, LOOKUP_BYTES)

    # loading and recovering the segment

    def load(self, index_interval_bytes: int) -> bool:
        """Read the indexes after a clean stop, and check their last entries. Returns False if they must be rebuilt."""
        at_most = self.log.size // HEADER_BYTES
        # An index with more entries than the segment can have batches is not read, because it could take any amount of memory. The
        # transaction index may have more entries than batches: compaction may leave an entry whose batches are in another segment.
        if max(self.offset_index.stored, self.time_index.stored) > at_most or self.txn_index.stored > max(at_most, MAX_ABORTED):
            return False
        sound = self.offset_index.load() and self.time_index.load() and self.txn_index.load(self.base_offset)
        if not sound or not self.offset_index.is_within(self.log.size):
            return False
        self.max_timestamp_ms, self.max_timestamp_offset = self.time_index.last
        self._unchecked = Unchecked(self.log.size)
        if self.log.size < HEADER_BYTES:
            return self.log.size == 0
        self.first_timestamp_ms = read_header(self.log.read(HEADER_BYTES, 0)).max_timestamp_ms
        try:
            return len(self.time_index) > 0 and self._reach_end(index_interval_bytes) and self._has_timestamp(*self.time_index.last)
        except (Damaged, DamagedBatch):
            return False

    def _reach_end(self, index_interval_bytes: int) -> bool:
        """Whether the indexes cover the segment up to its end.

        The offset index covers the end if the distance from its last entry to the last batch is at most ``index.interval.bytes``.
        If that setting has been lowered, entries may be further apart. So a distance below the smallest distance of two entries is
        also sufficient. The time index covers the end if no batch after its last entry has a larger timestamp than that entry.
        """
        position = self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)
        self._bytes_since_index = self.log.size - position
        gap_bytes = 0
        for at, header in self.headers(position):
            if header.max_timestamp_ms > self.max_timestamp_ms:
                return False
            gap_bytes = at - position
        return gap_bytes <= index_interval_bytes or gap_bytes < self.offset_index.least_gap_bytes()

    def recover(self, index_interval_bytes: int, known_end: int = 0, on_batch: OnBatch | None = None) -> Recovered:
        """Check every batch up to the first bad batch, and rebuild offset and time index in memory. Does not change the log.

        The transaction index is empty afterwards; ``on_batch``, which is called with each sound batch, may fill it. ``known_end``
        is an earlier log end offset. A batch with offsets on both sides of ``known_end`` is bad, although its CRC is right: the CRC
        does not cover offsets.
        """
        # The time index is cleared first: if the broker is killed now, its next start again recovers a segment without this index.
        self.time_index.clear()
        self.offset_index.clear()
        self.txn_index.clear()
        self.is_behind = True
        self._unchecked, self.damage = Unchecked(0), None
        self.max_timestamp_ms, self.max_timestamp_offset = -1, self.base_offset
        self.first_timestamp_ms = -1
        self._bytes_since_index = 0
        sound = SoundBatches(self.log, self.base_offset)
        next_offset = self.base_offset
        for position, header, raw in sound:
            if next_offset < known_end < header.next_offset:
                crossed = f"offset {header.base_offset} follows offset {next_offset - 1} at byte {position}"
                return Recovered(next_offset, position, crossed, next_offset)
            next_offset = header.next_offset
            self._note(position, header.size_bytes, header.last_offset, header.max_timestamp_ms, index_interval_bytes)
            if on_batch is not None:
                on_batch(header, raw)
        reason = None if sound.is_whole else f"{sound.reason or 'no whole batch'} at byte {sound.end}"
        return Recovered(sound.next_offset, sound.end, reason, sound.damaged_offset)

    def last_next_offset(self) -> int:
        """The offset after the last batch, which is found from the last entry of the offset index."""
        last = self._last_batch()
        return self.base_offset if last is None else last[1].next_offset

    def last_leader_epoch(self, otherwise: int) -> int:
        """The leader epoch of the last batch; ``otherwise`` if the segment has no batch."""
        last = self._last_batch()
        return otherwise if last is None else last[1].leader_epoch

    def ends_soundly(self) -> bool:
        """Whether the last batch, found from the last entry of the offset index, is sound and ends at the end of the file."""
        try:
            last = self._last_batch()
        except DamagedBatch:
            return False
        if last is None:
            return self.log.size == 0
        position, header = last
        return crc_is_valid(self.log.read(header.size_bytes, position), header)

    def _last_batch(self) -> tuple[int, BatchHeader] | None:
        return next(iter(deque(self.headers(self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)), maxlen=1)), None)

    # truncating the segment

    def cut_at(self, offset: int) -> tuple[int, int]:
        """Return the file position of the first batch with ``offset`` or a later offset, and the end offset before this batch.

        Raises the errors of `position_of`.
        """
        next_offset = self.base_offset
        for position, header in self._headers_near(offset - 1):
            if header.last_offset >= offset:
                return position, next_offset
            next_offset = header.next_offset
        return self.log.size, next_offset

    def truncate(self, position: int, end_offset: int, now_ms: int) -> None:
        """Cut the file at a batch, and remove the index entries at or above ``end_offset`` (LogSegment.truncateTo).

        The indexes are truncated before the log: recovery after a crash can rebuild missing entries, but a remaining entry would
        point into a later batch. After an OSError the next start must recover the segment.
        """
        self.time_index.truncate(end_offset)
        self.offset_index.truncate(end_offset)
        self.txn_index.truncate(end_offset)
        self.log.truncate(position)
        self._unchecked = Unchecked(min(self._unchecked.end, position))
        if self.damage is not None and self.damage.position >= position:
            self.damage = None
        self.max_timestamp_ms, self.max_timestamp_offset = self.time_index.last
        indexed = self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)
        self._bytes_since_index = position - indexed
        for _, header in self.headers(indexed):
            if header.max_timestamp_ms > self.max_timestamp_ms:
                self.max_timestamp_ms, self.max_timestamp_offset = header.max_timestamp_ms, header.last_offset
        if not position:
            self.created_ms, self.first_timestamp_ms = now_ms, -1

    # closing and renaming the files

    def files(self) -> list[File]:
        return [self.log, self.offset_index.file, self.time_index.file, self.txn_index.file]

    def close(self) -> None:
        for file in self.files():
            file.close()

    def mark_deleted(self) -> list[str]:
        """Rename the files to ``*.deleted``, so that no start reads them again; returns the new paths."""
        self.close()
        return self.rename(DELETED_SUFFIX)

    def rename(self, suffix: str) -> list[str]:
        """Give the files another suffix after their names; returns the new paths. A rename that failed half-way may be repeated.

        A starting broker recognises a segment by its ``.log`` file. So that file is renamed first on deletion, and otherwise last.
        """
        paths = []
        for file in self.files() if suffix == DELETED_SUFFIX else reversed(self.files()):
            stem = file.path
            for worn in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
                stem = stem.removesuffix(worn)
            # A segment may lack some of its index files.
            with suppress(FileNotFoundError):
                if file.path != stem + suffix:
                    self._fs.rename(file.path, stem + suffix)
                paths.append(stem + suffix)
            file.path = stem + suffix
        self._suffix = suffix
        return paths
