"""Reads a data directory that a broker may be writing to at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from ottla.protocol.markers import read_marker
from ottla.protocol.records import BatchHeader
from ottla.protocol.uuids import uuid_text
from ottla.spark.errors import PipelineError
from ottla.storage import snapshot
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets, read_partition_metadata
from ottla.storage.filesystem import Damaged
from ottla.storage.last_stop import CLEAN_FILE, FIRST_DIRTY, LOG_STARTS
from ottla.storage.names import parse_directory_name
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name, parse_file_name
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.walk import SoundBatches

T = TypeVar("T")

ATTEMPTS = 5
PAUSE_S = 0.1
"""How long to wait, in seconds, before a directory is read again whose segments are being replaced or removed."""


class Vanished(Exception):
    """A file has disappeared while the directory was read. The directory must be read again."""


class View(msgspec.Struct, frozen=True):
    """A partition at one moment: offsets in [start, end) exist, and those below ``last_stable_offset`` are decided.

    ``aborted`` are the aborted transactions in [start, last_stable_offset), in the order of their markers' offsets.
    """

    start: int
    end: int
    last_stable_offset: int
    aborted: list[AbortedTxn]


class Directory:
    """A data directory. Raises `PipelineError` where there is none. Every read opens the files anew."""

    def __init__(self, path: str) -> None:
        if not Path(path).is_dir():
            raise PipelineError(f"{path} is no directory; name the broker's data directory (log.dirs), as this machine sees it")
        self.path = path
        self.fs = RealFilesystem(read_only=True)

    def close(self) -> None:
        """Close the files that were read. A later read opens its files again."""
        self.fs.close_files()

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic in this directory."""
        names = [name for name in self.fs.list_dir(self.path) if self.fs.is_dir(f"{self.path}/{name}")]
        parsed = [parse_directory_name(name) for name in names]
        return sorted(where[1] for where in parsed if where is not None and where[0] == topic)

    def _segments(self, topic: str, partition: int) -> list[Segment]:
        """The segments as they are now. Raises `Vanished` while the broker exchanges files."""
        directory = f"{self.path}/{topic}-{partition}"
        names = self.fs.list_dir(directory)
        if any(name.endswith(LOG_SUFFIX + SWAP_SUFFIX) for name in names):
            raise Vanished(f"{directory} holds cleaned segments that are not in their place; start its broker, which finishes that")
        bases = [base for base in (parse_file_name(name, LOG_SUFFIX) for name in names) if base is not None]
        if not bases:
            raise Vanished(f"{directory} has no segment; is its topic being deleted?")
        indexed = {parse_file_name(name, suffix) for name in names for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
        for base in sorted(base for base in indexed.difference(bases) if base is not None and base > bases[0]):
            raise Vanished(f"{directory}/{file_name(base, LOG_SUFFIX)} is gone, and its index is there; bring it back")
        return [Segment(self.fs, directory, base, 0) for base in bases]

    def segments(self, topic: str, partition: int) -> list[Segment]:
        """The segments by base offset. Raises `PipelineError`."""
        return self._repeated(lambda: self._segments(topic, partition))

    def topic_id(self, topic: str, partition: int) -> str | None:
        """The topic's id as Kafka writes it; None where the directory does not have it. A topic that is made anew has another id.

        Raises `PipelineError`.
        """
        read = partial(read_partition_metadata, self.fs, f"{self.path}/{topic}-{partition}")
        topic_id = self._repeated(read)
        return None if topic_id is None else uuid_text(topic_id)

    def check_gap(self, topic: str, partition: int, segment: Segment, at: int, following: int) -> None:
        """Check a segment whose records end before the next segment begins. Cleaning makes such gaps, and so does damage.

        Raises `PipelineError` for a file that was emptied, and in a closed directory for offsets that no cleaner has removed.
        """
        where = f"{topic}-{partition}: offsets {at} to {following - 1} are missing"
        path = segment.path(LOG_SUFFIX)
        if not segment.size_bytes and any(self.fs.read_file(segment.path(suffix)) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
            raise PipelineError(f"{where}: {path} is empty, and its index is not; bring the file back")
        is_closed = self.fs.read_file(f"{self.path}/{CLEAN_FILE}") is not None
        if is_closed and (topic, partition) not in read_offsets(self.fs, f"{self.path}/{FIRST_DIRTY}"):
            raise PipelineError(f"{where} behind {path}, and the topic was never compacted; bring its files back")

    def view(self, topic: str, partition: int) -> View:
        """The view of a partition. Raises `PipelineError`."""
        return self._repeated(lambda: self._view(topic, partition))

    @staticmethod
    def _repeated(read: Callable[[], T]) -> T:
        """The result of ``read``, which is repeated until no file disappears meanwhile. Raises `PipelineError` after the last
        attempt."""
        for _ in range(ATTEMPTS - 1):
            try:
                return read()
            except (Vanished, FileNotFoundError, Damaged):
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
        for header, raw in _scan(segments, scanned_from, recovered_end):
            end = header.next_offset
            if header.is_control:
                marker = read_marker(raw, header)
                first = None if marker is None else open_at.pop(header.producer_id, None)
                if marker is not None and first is not None and not marker.commit:
                    aborted.append(AbortedTxn(header.producer_id, first, header.base_offset, header.next_offset))
            elif header.is_transactional:
                open_at.setdefault(header.producer_id, header.base_offset)
        starts = read_offsets(self.fs, f"{self.path}/{LOG_STARTS}")
        start = min(max(starts.get((topic, partition), 0), segments[0].base_offset), end)
        stable = max(min(open_at.values(), default=end), start)
        return View(start, end, stable, [entry for entry in aborted if entry.last_offset >= start])

    def _snapshot(self, topic: str, partition: int, at_most: int, log_start: int) -> tuple[int, dict[int, int]]:
        """The offset of the newest sound snapshot at or below an offset, and the transactions that were open there."""
        directory = f"{self.path}/{topic}-{partition}"
        for offset in reversed(snapshot.offsets(self.fs, directory)):
            if log_start <= offset <= at_most:
                entries = snapshot.read(self.fs, directory, offset)
                if entries is not None:
                    return offset, {e.producer_id: e.txn_first_offset for e in entries if e.txn_first_offset >= 0}
        return log_start, {}


class Directories:
    """All directories of a broker's ``log.dirs``, comma-separated. Each partition lies in one of them."""

    def __init__(self, paths: str) -> None:
        """Raises `PipelineError`."""
        self._paths = paths
        self._all = [Directory(path.strip()) for path in paths.split(",") if path.strip()]

    def close(self) -> None:
        for directory in self._all:
            directory.close()

    def of_topic(self, topic: str) -> dict[int, Directory]:
        """The directory of each partition. Raises `PipelineError` for a topic without any, and for a partition that lies in two
        directories."""
        lies_in: dict[int, Directory] = {}
        for directory in self._all:
            for index in directory.partitions(topic):
                if index in lies_in:
                    raise PipelineError(f"{topic}-{index} lies in {lies_in[index].path} and in {directory.path}: name one of them")
                lies_in[index] = directory
        if not lies_in:
            raise PipelineError(f"no partition of topic {topic!r} lies in {self._paths}")
        return dict(sorted(lies_in.items()))


def _recovered_up_to(fs: RealFilesystem, segments: list[Segment], recovery_point: int | None) -> int:
    """The offset below which indexes and batches are as the broker has left them. ``recovery_point`` is None for a directory that
    was closed.

    A broker's start does the same: segments without indexes, or at and above the recovery point, must be read through.
    """
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if recovery_point is not None and (following is None or following.base_offset > recovery_point):
            return segment.base_offset
        has_index = fs.read_file(segment.path(INDEX_SUFFIX)) is not None
        if not has_index or not segment.txn_index.load(segment.base_offset):
            return segment.base_offset
    return 1 << 62


def _scan(segments: list[Segment], start: int, recovered_end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches from an offset on, up to the first one that is not whole, where a broker would cut the log.

    Raises `Damaged` where that one lies below ``recovered_end``, where no broker cuts.
    """
    first = max((at for at, s in enumerate(segments) if s.base_offset <= start), default=0)
    next_offset = 0
    for segment in segments[first:]:
        position = segment.offset_index.lookup(start) if segment.offset_index.load() else 0
        is_recovered = segment.base_offset < recovered_end
        # A broker would also cut at a segment that begins below the end of the previous one.
        sound = SoundBatches(segment.log, max(segment.base_offset, next_offset), position)
        for _, header, raw in segment.scan(position, must_reach_end=True) if is_recovered else sound:
            next_offset = header.next_offset
            if header.last_offset >= start:
                yield header, raw
        if not is_recovered and not sound.is_whole:
            return
