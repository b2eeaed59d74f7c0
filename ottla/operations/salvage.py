"""``ottla recover``: finds damaged parts of logs in a stopped broker's directory, and replaces them by batches without records.

A broker never skips damaged bytes of a log, so they remain an error until the file is restored, or an operator discards them.
Discarding keeps every complete batch, also after the damage. An empty batch replaces the lost offsets, as after compaction, so that
ottla, Apache Kafka and their clients can read on. The markers of aborted transactions are written again: without them a client
would treat later records of the same producers as aborted.

The indexes of a changed segment are removed, and a starting broker rebuilds them: the transaction index needs the state of the
producers, which only the recovery of a log computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from ottla.operations.copying import PIECE_BYTES
from ottla.operations.directory_audit import logs_of
from ottla.operations.log_ends import KnownEnds, read_known_ends
from ottla.operations.segments import OnRead
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.records import HEADER_BYTES, BatchHeader, EndTxnMarker, assign, build_marker, pack_batch, read_header
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.checkpoints import LeaderEpochs
from ottla.storage.filesystem import File, Filesystem, sync_names
from ottla.storage.identity import DirectoryError
from ottla.storage.recovery import missing_end
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.walk import SoundBatches, whole_batches

TEMPORARY_SUFFIX = ".tmp"
"""Suffix of a temporary file. A starting broker removes such a file if a killed process has left it."""
_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_UNKNOWN_TIMESTAMP = -1


@dataclass(slots=True, frozen=True)
class Hole:
    """Damaged bytes [``begin``, ``end``) of a segment's file, with which the offsets [``first_offset``, ``next_offset``) are lost.

    If a file was truncated, the hole has no bytes. ``reason`` describes the error of the first damaged batch.
    """

    begin: int
    end: int
    first_offset: int
    next_offset: int
    reason: str


@dataclass(slots=True)
class DamagedSegment:
    """The damaged ranges of a segment, in ascending order."""

    where: TopicPartition
    path: str
    base_offset: int
    holes: list[Hole]
    epochs: dict[int, int] = field(default_factory=dict)
    """The newest epoch of each producer in the segments up to this one."""

    @property
    def may_be_changed(self) -> bool:
        """Whether damaged ranges of the log can be discarded. Not in the metadata log, which must be complete."""
        return self.where[0] != METADATA_TOPIC


def examine(fs: Filesystem, directory: str, chosen: set[TopicPartition], on_read: OnRead = lambda _: None) -> list[DamagedSegment]:
    """Read every batch of the chosen logs, or of all logs if none is chosen. Raises `DirectoryError` and OSError.

    Incomplete bytes at the end of a log, which a broker truncates after a crash, are not damage.
    """
    logs, ends = logs_of(fs, directory), read_known_ends(fs, directory)
    for topic, index in sorted(chosen - logs.keys()):
        raise DirectoryError(f"{directory} has no log of {topic}-{index}")
    return [
        damaged
        for where in sorted(chosen or logs)
        for damaged in _of_log(fs, f"{directory}/{where[0]}-{where[1]}", where, logs[where], ends, on_read)
    ]


def _of_log(
    fs: Filesystem, directory: str, where: TopicPartition, bases: list[int], ends: KnownEnds, on_read: OnRead
) -> Iterator[DamagedSegment]:
    epochs: dict[int, int] = {}
    for base_offset, following in zip(bases, [*bases[1:], None], strict=True):
        with closing(Segment(fs, directory, base_offset, 0)) as segment:
            holes = _holes(segment, following, ends.recovery_points.get(where, 0), epochs)
            on_read(segment.size_bytes)
        if holes:
            yield DamagedSegment(where, segment.path(LOG_SUFFIX), base_offset, holes, dict(epochs))


def _holes(segment: Segment, following: int | None, known_end: int, epochs: dict[int, int]) -> list[Hole]:
    """Return the damaged ranges of a segment. ``following`` is the base offset of the next segment, None for the last segment.
    ``known_end`` is an offset up to which the log was synced. ``epochs`` collects the producers' newest epochs."""
    file, holes = segment.log, list[Hole]()
    position, expected = 0, segment.base_offset
    while True:
        begin, expected, reason = _sound_part(file, position, expected, following, known_end, epochs)
        found = next(whole_batches(file, begin + 1, expected, following), None) if reason is not None else None
        if found is None:
            break
        holes.append(Hole(begin, found[0], expected, found[1].base_offset, reason or ""))
        position, expected = found[0], found[1].base_offset
    end = max(expected, known_end) if following is None else following
    if following is not None and reason is None:
        missing = missing_end(segment, following) if not holes else None
        if missing is not None:
            holes.append(Hole(begin, begin, missing, following, "the file ends here, but its index continues"))
    elif end > expected:
        holes.append(
            Hole(begin, file.size, expected, end, reason or f"offsets up to {end - 1} are missing, which were synced before")
        )
    return holes


def _sound_part(
    file: File, position: int, expected: int, following: int | None, known_end: int, epochs: dict[int, int]
) -> tuple[int, int, str | None]:
    """Return the position and offset after the valid batches from ``position`` on, and the error there; None at the file's end.

    No CRC covers a batch's base offset. A base offset after a gap is damaged if the next batch's offset only fits without the gap.
    """
    gap: tuple[int, int, BatchHeader] | None = None
    sound = SoundBatches(file, expected, position, limit=following)
    for at, header, _ in sound:
        if following is None and expected < known_end < header.next_offset:
            return at, expected, f"offset {header.base_offset} follows offset {expected - 1}"
        gap = (at, expected, header) if header.base_offset > expected else None
        expected = header.next_offset
        if header.producer_id >= 0:
            epochs[header.producer_id] = max(epochs.get(header.producer_id, 0), header.producer_epoch)
    begin = sound.end
    if sound.is_whole:
        return begin, expected, None
    if gap is not None and file.size - begin >= HEADER_BYTES:
        at, before, jumped = gap
        if read_header(file.read(HEADER_BYTES, begin)).base_offset == before + jumped.last_offset_delta + 1:
            return at, before, f"offset {jumped.base_offset} follows offset {before - 1}"
    return begin, expected, sound.reason or "no whole batch"


def give_up(fs: Filesystem, directory: str, damaged: DamagedSegment) -> None:
    """Replace the damaged ranges of a segment by empty batches, atomically even if the process is killed. Raises OSError."""
    partition = f"{directory}/{damaged.where[0]}-{damaged.where[1]}"
    known_end = read_known_ends(fs, directory).recovery_points.get(damaged.where, 0)
    leader_epochs = LeaderEpochs(fs, partition)
    leader_epochs.load()
    aborted = _aborted(fs, partition, damaged.base_offset)
    target = damaged.path + TEMPORARY_SUFFIX
    fs.unlink(target)
    with closing(fs.open(damaged.path)) as reading, closing(fs.open(target)) as writing:
        position = 0
        for hole in damaged.holes:
            _copy(reading, writing, position, hole.begin)
            for batch in _fillers(hole, known_end, [a for a in aborted if hole.first_offset <= a.last_offset < hole.next_offset]):
                _append(writing, batch, damaged, leader_epochs)
            position = hole.end
        _copy(reading, writing, position, reading.size)
        writing.sync()
    # A starting broker rebuilds missing indexes. The old indexes would be wrong, so they are removed first.
    for suffix in _SUFFIXES:
        fs.unlink(f"{partition}/{file_name(damaged.base_offset, suffix)}")
    sync_names(fs, partition)
    fs.rename(target, damaged.path)
    sync_names(fs, partition)


def _aborted(fs: Filesystem, partition: str, base_offset: int) -> list[AbortedTxn]:
    with closing(Segment(fs, partition, base_offset, 0)) as segment:
        return list(segment.txn_index) if segment.txn_index.load(base_offset) else []


def _copy(reading: File, writing: File, begin: int, end: int) -> None:
    for at in range(begin, end, PIECE_BYTES):
        writing.append(reading.read(min(PIECE_BYTES, end - at), at))


Filler = tuple[int, int, int | None]
"""The offsets [first, next) of a batch, and the producer whose abort marker is in it; None for an empty batch."""


def _fillers(hole: Hole, known_end: int, aborted: list[AbortedTxn]) -> Iterator[Filler]:
    """Yield the batches that replace a damaged range. No batch has offsets on both sides of ``known_end``,
    because recovery would take such a batch for damage."""
    at = hole.first_offset
    ends = {entry.last_offset: entry.producer_id for entry in aborted}
    stops = sorted({*ends, known_end, hole.next_offset})
    for stop in stops:
        if at < stop <= hole.next_offset:
            yield at, stop, None
            at = stop
        if stop in ends:
            yield stop, stop + 1, ends[stop]
            at = stop + 1


def _append(writing: File, filler: Filler, damaged: DamagedSegment, leader_epochs: LeaderEpochs) -> None:
    first, following, producer_id = filler
    if producer_id is None:
        header = BatchHeader(
            base_offset=first,
            batch_length=0,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=0,
            last_offset_delta=following - first - 1,
            base_timestamp_ms=_UNKNOWN_TIMESTAMP,
            max_timestamp_ms=_UNKNOWN_TIMESTAMP,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=0,
        )
        batch = pack_batch(header, b"")
    else:
        marker = EndTxnMarker(producer_id, damaged.epochs.get(producer_id, 0), False, 0)
        batch = build_marker(marker, _UNKNOWN_TIMESTAMP)
    assign(batch, first, max(leader_epochs.epoch_for(first), 0))
    writing.append(batch)
