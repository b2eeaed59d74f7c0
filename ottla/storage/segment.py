"""One segment: ``.log`` with its indexes (org.apache.kafka.storage.internals.log.LogSegment)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from ottla.protocol.primitives import Buffer
from ottla.protocol.records import HEADER_BYTES, MIN_BATCH_LENGTH, BatchHeader, crc_is_valid, read_header
from ottla.storage.checkpoints import MAX_OFFSET
from ottla.storage.config import LogConfig
from ottla.storage.filesystem import Damaged, File, Filesystem, sync_dir, sync_file
from ottla.storage.indexes import OffsetIndex, TimeIndex
from ottla.storage.txn_index import TxnIndex
from ottla.storage.walk import MAX_RELATIVE_OFFSET, PIECE_BYTES, SoundBatches, batches

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
LOOKUP_BYTES = 1 << 15
MAX_ABORTED = 1 << 20
"""Aborted transactions that a segment's index may have beyond its batches."""


OnBatch = Callable[[BatchHeader, memoryview], None]

_FILE_NAME = re.compile(r"([0-9]{20})(\..+)", re.ASCII)


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str, suffix: str) -> int | None:
    """The offset that a file is named after; None for every name that `file_name` does not give with this suffix."""
    parts = _FILE_NAME.fullmatch(name)
    if parts is None or parts[2] != suffix or int(parts[1]) > MAX_OFFSET:
        return None
    return int(parts[1])


def astray(path: str, entry: str) -> Damaged:
    """An index that does not fit its log, whichever of the two is damaged."""
    return Damaged(path, f"the entry of {entry} leads astray; remove the file, and the next start makes it anew")


class Recovered(NamedTuple):
    """What is sound of a segment: up to which offset and byte, and what is wrong behind it, if anything is.

    ``damaged_offset`` is the first offset of which nothing is known.
    """

    next_offset: int
    size_bytes: int
    reason: str | None
    damaged_offset: int


class Segment:
    """Batches from ``base_offset`` on. Appends go to the log at once, to the indexes behind it."""

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_fs",
        "_suffix",
        "base_offset",
        "created_ms",
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
        """Whether a start has made the indexes anew, and their files may lack some of it."""
        self.log: File = fs.open(self.path(LOG_SUFFIX))
        self.offset_index = OffsetIndex(fs, self.path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(fs, self.path(TIME_INDEX_SUFFIX), base_offset)
        self.txn_index = TxnIndex(fs, self.path(TXN_INDEX_SUFFIX))

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{self._suffix}"

    @property
    def size_bytes(self) -> int:
        return self.log.size

    # writing

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
        """LogSegment.shouldRoll: size, age, full indexes, or an offset too far from the base for four bytes."""
        if self.log.size == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        if self.log.size > config.segment_bytes - size:
            return True
        since = timestamp_ms - self.first_timestamp_ms if self.first_timestamp_ms >= 0 else now_ms - self.created_ms
        if since > config.max_segment_ms:
            return True
        full = config.segment_index_bytes
        if self.offset_index.size_bytes + 8 > full or self.time_index.size_bytes + 12 > full:
            return True
        return last_offset - self.base_offset > MAX_RELATIVE_OFFSET

    def flush_indexes(self) -> None:
        """Bring the files to what an inactive segment has: indexes up to the log with the last time entry, and no surplus.

        As LogSegment.onBecomeInactiveSegment. Raises OSError, and may be called again.
        """
        for file in self.files():
            file.cut_surplus()
        if self.log.size:
            self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        # A segment without time index entries is recovered by the next start, so they come last.
        self.txn_index.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.is_behind = False

    def sync_transactions(self) -> None:
        """Bring the aborted-transaction index to the disk; it may run beside the event loop."""
        with suppress(FileNotFoundError):
            sync_file(self._fs, self.txn_index.file.path)
            sync_dir(self._fs, self._directory)

    def sync(self) -> None:
        self.log.sync()
        self.offset_index.file.sync()
        self.time_index.file.sync()
        self.txn_index.file.sync()

    # reading

    def scan(
        self, position: int = 0, end: int | None = None, *, piece_bytes: int = PIECE_BYTES, must_reach_end: bool = False
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Position, header and bytes of each batch from a file position on; ends at the first that is not whole.

        With ``must_reach_end`` raises `Damaged` there.
        """
        return batches(self.log, position, end, piece_bytes=piece_bytes, must_reach_end=must_reach_end)

    def position_of(self, offset: int) -> tuple[int, BatchHeader] | None:
        """File position and header of the first batch whose last offset is at or above ``offset``.

        Raises `Damaged` where the index leads to no batch that it names: what it leaves out would be taken for never written.
        """
        indexed, start = self.offset_index.floor(offset)
        for position, header in self.headers(start):
            if indexed >= 0:
                if header.last_offset != indexed or header.magic != 2:
                    break
                indexed = -1
            if header.last_offset >= offset:
                return position, header
        if indexed >= 0:
            raise astray(self.offset_index.file.path, f"offset {indexed}")
        return None

    def offset_below(self, timestamp_ms: int) -> int:
        """The offset from which on a record at or after ``timestamp_ms`` must be looked for. Raises `Damaged` as `position_of`."""
        timestamp, offset = self.time_index.lookup(timestamp_ms)
        if timestamp >= 0 and not self._has_timestamp(timestamp, offset):
            raise astray(self.time_index.file.path, f"timestamp {timestamp}")
        return offset

    def _has_timestamp(self, timestamp_ms: int, offset: int) -> bool:
        """Whether ``timestamp_ms`` is the largest of the batch that holds an offset. Raises `Damaged` as `position_of`."""
        place = self.position_of(offset)
        return place is not None and place[1].max_timestamp_ms == timestamp_ms

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from a file position on: reads a window, and jumps over large batches.

        Each turn moves on by a header at least; a read gives all of what is asked for, or raises.
        """
        end = self.log.size
        while end - position >= HEADER_BYTES:
            raw = self.log.read(min(LOOKUP_BYTES, end - position), position)
            at = 0
            while len(raw) - at >= HEADER_BYTES:
                header = read_header(raw, at)
                if header.batch_length < MIN_BATCH_LENGTH:
                    return
                yield position + at, header
                at += header.size_bytes
            position += at

    # start

    def load(self, index_interval_bytes: int) -> bool:
        """Take over the indexes after a clean stop; False when they must be rebuilt. Nothing but their ends is looked at."""
        at_most = self.log.size // HEADER_BYTES
        # More entries than batches: reading them could take any amount of memory. Compaction may leave transactions without any.
        if max(self.offset_index.stored, self.time_index.stored) > at_most or self.txn_index.stored > max(at_most, MAX_ABORTED):
            return False
        sound = self.offset_index.load() and self.time_index.load() and self.txn_index.load(self.base_offset)
        if not sound or not self.offset_index.is_within(self.log.size):
            return False
        self.max_timestamp_ms, self.max_timestamp_offset = self.time_index.last
        if self.log.size < HEADER_BYTES:
            return self.log.size == 0
        self.first_timestamp_ms = read_header(self.log.read(HEADER_BYTES, 0)).max_timestamp_ms
        try:
            return len(self.time_index) > 0 and self._reach_end(index_interval_bytes) and self._has_timestamp(*self.time_index.last)
        except Damaged:
            return False

    def _reach_end(self, index_interval_bytes: int) -> bool:
        """Whether the offset index goes as near to the log's end as appends leave it, and the time index knows what follows.

        The interval may have been larger when the entries were set; they lie further apart than it was then.
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
        """Check every batch up to the first bad one, rebuild the indexes in memory; the one of transactions is empty.

        ``known_end`` is an offset where the log once ended, so that no batch has offsets on both sides of it. The CRC does not
        cover the offsets. ``on_batch`` is given each sound batch. The log is left as it is.
        """
        # The time index goes first: without it the next start does this again, wherever this one is killed.
        self.time_index.clear()
        self.offset_index.clear()
        self.txn_index.clear()
        self.is_behind = True
        self.max_timestamp_ms, self.max_timestamp_offset = -1, self.base_offset
        self.first_timestamp_ms = -1
        self._bytes_since_index = 0
        sound = SoundBatches(self.log, self.base_offset)
        next_offset = self.base_offset
        for position, header, raw in sound:
            if next_offset < known_end < header.next_offset:
                crossed = f"offset {header.base_offset} after {next_offset - 1} at byte {position}"
                return Recovered(next_offset, position, crossed, next_offset)
            next_offset = header.next_offset
            self._note(position, header.size_bytes, header.last_offset, header.max_timestamp_ms, index_interval_bytes)
            if on_batch is not None:
                on_batch(header, raw)
        reason = None if sound.is_whole else f"{sound.reason or 'no whole batch'} at byte {sound.end}"
        return Recovered(sound.next_offset, sound.end, reason, sound.damaged_offset)

    def last_next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry."""
        last = self._last_batch()
        return self.base_offset if last is None else last[1].next_offset

    def last_leader_epoch(self, otherwise: int) -> int:
        """That of the last batch; ``otherwise`` where there is no batch."""
        last = self._last_batch()
        return otherwise if last is None else last[1].leader_epoch

    def ends_soundly(self) -> bool:
        """Whether the last batch, found from the last index entry, is sound and ends where the file does."""
        last = self._last_batch()
        if last is None:
            return self.log.size == 0
        position, header = last
        if header.magic != 2 or position + header.size_bytes != self.log.size or header.last_offset < self.base_offset:
            return False
        return crc_is_valid(self.log.read(header.size_bytes, position), header)

    def _last_batch(self) -> tuple[int, BatchHeader] | None:
        return next(iter(deque(self.headers(self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)), maxlen=1)), None)

    # end

    def files(self) -> list[File]:
        return [self.log, self.offset_index.file, self.time_index.file, self.txn_index.file]

    def close(self) -> None:
        for file in self.files():
            file.close()

    def mark_deleted(self) -> list[str]:
        """Rename the files to ``*.deleted``, so that a crash never brings them back; the new paths."""
        self.close()
        return self.rename(DELETED_SUFFIX)

    def rename(self, suffix: str) -> list[str]:
        """Give the files another suffix behind their names; their new paths. One that stopped half-way may be called again.

        The log decides what a segment is: it goes first, and comes last.
        """
        paths = []
        for file in self.files() if suffix == DELETED_SUFFIX else reversed(self.files()):
            stem = file.path
            for worn in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
                stem = stem.removesuffix(worn)
            # Not every segment has every index.
            with suppress(FileNotFoundError):
                if file.path != stem + suffix:
                    self._fs.rename(file.path, stem + suffix)
                paths.append(stem + suffix)
            file.path = stem + suffix
        self._suffix = suffix
        return paths
