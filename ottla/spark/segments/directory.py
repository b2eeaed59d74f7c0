"""Reads a data directory while a broker may be writing to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from ottla.protocol.markers import read_marker
from ottla.protocol.records import BatchHeader
from ottla.protocol.uuids import uuid_text
from ottla.spark.errors import PipelineError
from ottla.storage import snapshot
from ottla.storage.checkpoints import RECOVERY_POINTS, LeaderEpochs, read_offsets, read_partition_metadata
from ottla.storage.filesystem import Damaged
from ottla.storage.last_stop import CLEAN_FILE, FIRST_DIRTY, LOG_STARTS
from ottla.storage.names import parse_directory_name
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.recovery import missing_end
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name, parse_file_name
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.walk import DamagedBatch, SoundBatches, whole_batches_behind

T = TypeVar("T")

READ_BYTES = 4 << 20
ATTEMPTS = 5
PAUSE_S = 0.1
"""Delay, in seconds, before a directory is read again after segments were replaced or removed."""


class Vanished(Exception):
    """A file disappeared during a read, so the directory must be read again."""


class View(msgspec.Struct, frozen=True):
    """A partition at one moment: its offsets are [start, end). Offsets below ``last_stable_offset`` belong to no open transaction.

    ``aborted`` has the aborted transactions in [start, last_stable_offset), ordered by the offsets of their markers.
    """

    start: int
    end: int
    last_stable_offset: int
    aborted: list[AbortedTxn]


class Directory:
    """A data directory. Raises `PipelineError` if the directory does not exist."""

    def __init__(self, path: str) -> None:
        if not Path(path).is_dir():
            raise PipelineError(f"{path} is not a directory; give the broker's data directory (log.dirs) as a path of this machine")
        self.path = path
        self.fs = RealFilesystem(read_only=True)

    def close(self) -> None:
        """Close all files. A later read opens them again."""
        self.fs.close_files()

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic in this directory."""
        names = [name for name in self.fs.list_dir(self.path) if self.fs.is_dir(f"{self.path}/{name}")]
        parsed = [parse_directory_name(name) for name in names]
        return sorted(where[1] for where in parsed if where is not None and where[0] == topic)

    def _segments(self, topic: str, partition: int) -> list[Segment]:
        """Return the current segments. Raises `Vanished` while the broker replaces files."""
        directory = f"{self.path}/{topic}-{partition}"
        names = self.fs.list_dir(directory)
        if any(name.endswith(LOG_SUFFIX + SWAP_SUFFIX) for name in names):
            raise Vanished(f"{directory} has compacted segments that are not renamed yet; start its broker, which renames them")
        bases = [base for base in (parse_file_name(name, LOG_SUFFIX) for name in names) if base is not None]
        if not bases:
            raise Vanished(f"{directory} has no segment; its topic may be being deleted")
        indexed = {parse_file_name(name, suffix) for name in names for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
        for base in sorted(base for base in indexed.difference(bases) if base is not None and base > bases[0]):
            raise Vanished(f"{directory}/{file_name(base, LOG_SUFFIX)} is missing, but its index exists; restore the file")
        return [Segment(self.fs, directory, base, 0) for base in bases]

    def segments(self, topic: str, partition: int) -> list[Segment]:
        """Return the segments by base offset. Raises `PipelineError`."""
        return self._repeated(lambda: self._segments(topic, partition))

    def topic_id(self, topic: str, partition: int) -> str | None:
        """Return the topic's id in Kafka's text form; None if unknown. A topic that was deleted and created again has another id.
        Raises `PipelineError`."""
        read = partial(read_partition_metadata, self.fs, f"{self.path}/{topic}-{partition}")
        topic_id = self._repeated(read)
        return None if topic_id is None else uuid_text(topic_id)

    def check_gap(self, topic: str, partition: int, segment: Segment, at: int, following: int) -> None:
        """Check a segment whose records end before the next segment begins. Such a gap results from compaction or from damage.

        Raises `DamagedBatch` for a truncated file, and, if the broker was shut down cleanly, `PipelineError` for a partition that
        was never compacted.
        """
        missing = missing_end(segment, following)
        if missing is not None:
            raise DamagedBatch(segment.log.path, segment.size_bytes, missing, "the segment file ends before its index")
        is_closed = self.fs.read_file(f"{self.path}/{CLEAN_FILE}") is not None
        if is_closed and (topic, partition) not in read_offsets(self.fs, f"{self.path}/{FIRST_DIRTY}"):
            gone = f"{topic}-{partition}: offsets {at} to {following - 1} are missing after {segment.log.path}"
            raise PipelineError(f"{gone}, and the topic was never compacted; restore its files")

    def view(self, topic: str, partition: int) -> View:
        """Return the current `View` of a partition. Raises `PipelineError` if the partition is missing or damaged."""
        with self.damage_told(topic, partition):
            return self._repeated(lambda: self._view(topic, partition))

    @contextmanager
    def damage_told(self, topic: str, partition: int) -> Iterator[None]:
        """Convert a `DamagedBatch` that the block raises to a `PipelineError` that says what to do."""
        try:
            yield
        except DamagedBatch as damage:
            raise PipelineError(
                f"{topic}-{partition}: {damage.message}. Restore the file, or stop the broker and examine the log with"
                f" 'ottla recover --data-dir {self.path} --partition {topic}:{partition}'"
            ) from damage

    def sound_batches(
        self, segments: Sequence[Segment], at: int, position: int, *, may_be_torn: bool
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Read the batches of segment ``at`` from a file position on. Raises `DamagedBatch`.

        With ``may_be_torn`` the last segment may end with an incomplete batch, which is being written or was truncated by a crash.
        Brokers write batches in order, so no complete batch follows.
        """
        segment, is_last = segments[at], at + 1 == len(segments)
        limit = None if is_last else segments[at + 1].base_offset
        sound = SoundBatches(segment.log, segment.base_offset, position, piece_bytes=READ_BYTES, limit=limit)
        for _, header, raw in sound:
            yield header, raw
        is_torn = may_be_torn and is_last and not whole_batches_behind(segment.log, sound.end, sound.damaged_offset).batch_count
        if not sound.is_whole and not is_torn:
            raise sound.damaged_batch()

    @staticmethod
    def _repeated(read: Callable[[], T]) -> T:
        """Repeat ``read`` while files disappear or seem damaged, as when a broker replaces them. Raises `PipelineError` or
        `DamagedBatch` after `ATTEMPTS` calls."""
        for _ in range(ATTEMPTS - 1):
            try:
                return read()
            except (Vanished, FileNotFoundError, Damaged, DamagedBatch):
                time.sleep(PAUSE_S)
        try:
            return read()
        except (Vanished, FileNotFoundError, Damaged) as error:
            raise PipelineError(str(error)) from None

    def _view(self, topic: str, partition: int) -> View:
        segments = self._segments(topic, partition)
        is_clean = self.fs.read_file(f"{self.path}/{CLEAN_FILE}") is not None
        points = read_offsets(self.fs, f"{self.path}/{RECOVERY_POINTS}")
        recovered_end = _recovered_up_to(self.fs, segments, None if is_clean else points.get((topic, partition), 0))
        scanned_from, open_at = self._snapshot(topic, partition, recovered_end, segments[0].base_offset)
        aborted = [
            entry for s in segments if s.base_offset <= scanned_from for entry in s.txn_index if entry.last_offset < scanned_from
        ]
        end = scanned_from
        for header, raw in self._scan(segments, scanned_from, recovered_end):
            end = header.next_offset
            if header.is_control:
                marker = read_marker(raw, header)
                first = None if marker is None else open_at.pop(header.producer_id, None)
                if marker is not None and first is not None and not marker.commit:
                    aborted.append(AbortedTxn(header.producer_id, first, header.base_offset, header.next_offset))
            elif header.is_transactional:
                open_at.setdefault(header.producer_id, header.base_offset)
        point = points.get((topic, partition), 0)
        if end < point:
            raise DamagedBatch(
                segments[-1].log.path,
                segments[-1].size_bytes,
                end,
                f"offsets up to {point - 1} are missing, which were synced before",
            )
        start = min(max(self._log_start(topic, partition), segments[0].base_offset), end)
        stable = max(min(open_at.values(), default=end), start)
        return View(start, end, stable, [entry for entry in aborted if entry.last_offset >= start])

    def _scan(self, segments: list[Segment], start: int, recovered_end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Read the batches from offset ``start`` on. Only a segment at or above ``recovered_end`` may end with an incomplete batch.
        Raises `DamagedBatch`."""
        first = max((at for at, s in enumerate(segments) if s.base_offset <= start), default=0)
        for at, segment in enumerate(segments[first:], first):
            position = segment.offset_index.lookup(start) if segment.offset_index.load() else 0
            may_be_torn = segment.base_offset >= recovered_end
            for header, raw in self.sound_batches(segments, at, position, may_be_torn=may_be_torn):
                if header.last_offset >= start:
                    yield header, raw

    def _log_start(self, topic: str, partition: int) -> int:
        """Return the log start offset, the larger of two checkpoints. Below it, segment files may still contain deleted records.

        After DeleteRecords, the checkpoint of leader epochs has the new start offset at once, but Apache Kafka writes the
        checkpoint of log start offsets up to a minute later.
        """
        starts = read_offsets(self.fs, f"{self.path}/{LOG_STARTS}")
        epochs = LeaderEpochs(self.fs, f"{self.path}/{topic}-{partition}")
        first_epoch_start = epochs.entries[0][1] if epochs.load() and epochs.entries else 0
        return max(starts.get((topic, partition), 0), first_epoch_start)

    def _snapshot(self, topic: str, partition: int, at_most: int, log_start: int) -> tuple[int, dict[int, int]]:
        """Return the offset of the newest intact producer snapshot at or below ``at_most``, and the transactions that were open at
        this offset."""
        directory = f"{self.path}/{topic}-{partition}"
        for offset in reversed(snapshot.offsets(self.fs, directory)):
            if log_start <= offset <= at_most:
                entries = snapshot.read(self.fs, directory, offset)
                if entries is not None:
                    return offset, {e.producer_id: e.txn_first_offset for e in entries if e.txn_first_offset >= 0}
        return log_start, {}


def _recovered_up_to(fs: RealFilesystem, segments: list[Segment], recovery_point: int | None) -> int:
    """Return the offset below which indexes and batches are complete. ``recovery_point`` is None after a clean shutdown.

    As in the broker's recovery, segments without indexes and segments that reach the recovery point may be incomplete.
    """
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if recovery_point is not None and (following is None or following.base_offset > recovery_point):
            return segment.base_offset
        has_index = fs.read_file(segment.path(INDEX_SUFFIX)) is not None
        if not has_index or not segment.txn_index.load(segment.base_offset):
            return segment.base_offset
    return 1 << 62
