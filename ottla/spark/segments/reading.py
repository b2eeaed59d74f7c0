"""Plans the splits of a topic's segment files, and reads their records as Arrow batches. The module does not depend on Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from ottla.protocol.records import BatchHeader
from ottla.spark.errors import PipelineError
from ottla.spark.segments.columns import HEADERS, Malformed, Records
from ottla.spark.segments.directories import Directories
from ottla.spark.segments.directory import Directory, View
from ottla.storage.segment import Segment
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.walk import DamagedBatch

BATCH_BYTES = 4 << 20
"""Compressed size, in bytes, of the record batches that are decoded to one Arrow batch."""
SPLIT_BYTES = 64 << 20
EARLIEST, LATEST = -2, -1

COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
"""The columns, with names and types of Spark's Kafka connector."""

Bounds = dict[int, int]


class ReadRequest(msgspec.Struct, frozen=True):
    """A read of a topic. ``directories`` are the broker's log.dirs. Start offsets default to ``EARLIEST``, end offsets to
    ``LATEST``.

    A timestamp selects the first record at or after the timestamp, as in ListOffsets.
    """

    directories: str
    topic: str
    is_committed: bool = True
    partitions: tuple[int, ...] | None = None
    starting: Bounds = {}
    ending: Bounds = {}
    starting_timestamp_ms: int | None = None
    ending_timestamp_ms: int | None = None
    fails_on_data_loss: bool = True
    split_bytes: int = SPLIT_BYTES


class Split(msgspec.Struct, frozen=True):
    """The offsets [start, end) of a partition, without the batches of the ``aborted`` transactions."""

    directory: str
    topic: str
    partition: int
    start: int
    end: int
    aborted: list[AbortedTxn]


def parse_bounds(text: str, option: str, topic: str = "") -> Bounds:
    """Parse offsets such as ``{"0": 5, "1": -2}``, or with the topic's name as in the connector: ``{"orders": {"0": 5}}``. Raises
    `PipelineError`."""
    try:
        given = json.loads(text)
        if isinstance(given.get(topic), dict):
            given = given[topic]
        return {int(partition): int(offset) for partition, offset in given.items()}
    except (ValueError, AttributeError, TypeError):
        raise PipelineError(f'{option} {text!r}: give earliest, latest or an offset a partition, {{"0": 5, "1": -2}}') from None


def plan(wanted: ReadRequest) -> list[Split]:
    """Divide a read into splits. Raises `PipelineError`."""
    with closing(Directories(wanted.directories)) as directories:
        known = directories.of_topic(wanted.topic, {*(wanted.partitions or ()), *wanted.starting, *wanted.ending})
        chosen = list(known) if wanted.partitions is None else sorted(wanted.partitions)
        present = [(index, directory) for index in chosen if (directory := known[index]) is not None]
        return [split for index, directory in present for split in _planned(wanted, directory, index)]


def _planned(wanted: ReadRequest, directory: Directory, index: int) -> Iterator[Split]:
    # Use an absolute path, because the process that reads the split may have another working directory.
    root = str(Path(directory.path).absolute())
    view = directory.view(wanted.topic, index)
    start, end = _range(wanted, directory, index, view)
    aborted = [a for a in view.aborted if a.first_offset < end and a.last_offset >= start] if wanted.is_committed else []
    for first, last in _cuts(directory.segments(wanted.topic, index), start, end, wanted.split_bytes):
        within = [a for a in aborted if a.first_offset < last and a.last_offset >= first]
        yield Split(root, wanted.topic, index, first, last, within)


def _range(wanted: ReadRequest, directory: Directory, index: int, view: View) -> tuple[int, int]:
    """Return the start and end offset of the read, limited to existing offsets."""
    bound = view.last_stable_offset if wanted.is_committed else view.end

    def resolve(offset: int, timestamp_ms: int | None) -> int:
        if timestamp_ms is not None:
            return _first_at(directory, wanted.topic, index, timestamp_ms, view, bound)
        return {EARLIEST: view.start, LATEST: bound}.get(offset, offset)

    start = resolve(wanted.starting.get(index, EARLIEST), wanted.starting_timestamp_ms)
    end = resolve(wanted.ending.get(index, LATEST), wanted.ending_timestamp_ms)
    where = f"{wanted.topic}-{index}"
    if start < view.start and wanted.fails_on_data_loss:
        raise PipelineError(
            f"{where}: offset {start} was requested, but the log begins at {view.start}: retention has removed the records between;"
            " failOnDataLoss=false continues with the remaining records"
        )
    if end > bound and wanted.fails_on_data_loss:
        why = f"the log ends at {view.end}" if end > view.end else f"a transaction is open at {bound}"
        raise PipelineError(
            f"{where}: offsets up to {end} were requested, but {why}; failOnDataLoss=false reads the available records"
        )
    return max(start, view.start), min(end, bound)


def _first_at(directory: Directory, topic: str, index: int, timestamp_ms: int, view: View, bound: int) -> int:
    """Return the offset of the first record at or after a timestamp; ``bound`` if all records below ``bound`` are older."""
    segments = directory.segments(topic, index)
    with directory.damage_told(topic, index):
        for at, segment in enumerate(segments):
            is_active = segment is segments[-1]
            if not is_active and segment.time_index.load() and 0 <= segment.time_index.last[0] < timestamp_ms:
                continue
            for header, raw in directory.sound_batches(segments, at, 0, may_be_torn=True):
                if header.base_offset >= bound:
                    return bound
                if header.max_timestamp_ms < timestamp_ms or header.last_offset < view.start or header.is_control:
                    continue
                records = _decoded([(header, raw)], f"{topic}-{index}")
                late = np.flatnonzero((records.timestamps_ms >= timestamp_ms) & (records.offsets >= view.start))
                if late.size:
                    return min(int(records.offsets[late[0]]), bound)
    return bound


def _cuts(segments: Sequence[Segment], start: int, end: int, split_bytes: int) -> Iterator[tuple[int, int]]:
    """Return the offsets [first, last) of each split. A split does not cross segments; long segments are divided between
    batches."""
    for segment, following in zip(segments, [*(s.base_offset for s in segments[1:]), end], strict=True):
        first, last = max(start, segment.base_offset), min(end, following)
        has_index = segment.offset_index.load()
        position = segment.offset_index.lookup(first) if has_index else 0
        # The splits of a segment have equal sizes, so that all cores finish at the same time.
        left = segment.size_bytes - position
        share = -(-left // max(1, round(left / split_bytes)))
        while first < last:
            target, cut = position + share, None
            if target < segment.size_bytes:
                near = max(position, segment.offset_index.position_before(target)) if has_index else position
                # The read of a split reports its damaged batches, so planning ignores them. The last batch may be incomplete.
                with suppress(DamagedBatch):
                    headers = segment.headers(near)
                    cut = next(((at, h.base_offset) for at, h in headers if at >= target and h.base_offset > first), None)
            if cut is None or cut[1] >= last:
                yield first, last
                break
            yield first, cut[1]
            position, first = cut


def read(split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the records of a split, with only the requested columns. Raises `PipelineError`."""
    aborted: dict[int, list[AbortedTxn]] = {}
    for entry in split.aborted:
        aborted.setdefault(entry.producer_id, []).append(entry)
    batches: list[tuple[BatchHeader, memoryview]] = []
    size_bytes = 0
    for header, raw in _batches(split):
        if header.is_control or not header.record_count:
            continue
        if header.is_transactional and _is_aborted(aborted.get(header.producer_id, ()), header.base_offset):
            continue
        batches.append((header, raw))
        size_bytes += len(raw)
        if size_bytes >= BATCH_BYTES:
            yield from _arrow(split, batches, columns)
            batches, size_bytes = [], 0
    if batches:
        yield from _arrow(split, batches, columns)


def _is_aborted(of_producer: Sequence[AbortedTxn], base_offset: int) -> bool:
    return any(entry.first_offset <= base_offset < entry.last_offset for entry in of_producer)


def _batches(split: Split) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Read the batches of a split. Compaction may have moved the batches after the split was planned."""
    with closing(Directory(split.directory)) as directory, directory.damage_told(split.topic, split.partition):
        yield from _batches_of(directory, split)


def _batches_of(directory: Directory, split: Split) -> Iterator[tuple[BatchHeader, memoryview]]:
    where = f"{split.topic}-{split.partition}"
    at = split.start
    while at < split.end:
        segments = directory.segments(split.topic, split.partition)
        number = max((n for n, s in enumerate(segments) if s.base_offset <= at), default=-1)
        if number < 0:
            raise PipelineError(f"{where}: retention has removed offset {at} during the read")
        try:
            for header, raw in _from(directory, segments, number, at):
                if header.base_offset >= split.end:
                    return
                yield header, raw
                at = header.next_offset
                if at >= split.end:
                    return
        except FileNotFoundError:
            continue
        if number + 1 == len(segments):
            raise PipelineError(
                f"{where}: the log ends at offset {at}, but ended at {split.end} before: its file is damaged or truncated"
            )
        following = segments[number + 1].base_offset
        if at < following:
            directory.check_gap(split.topic, split.partition, segments[number], at, following)
            at = following


def _from(directory: Directory, segments: Sequence[Segment], number: int, start: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Read the batches of one segment from offset ``start`` on. Raises `DamagedBatch` at the first damaged batch."""
    segment = segments[number]
    position = segment.offset_index.lookup(start) if segment.offset_index.load() else 0
    for at, header in segment.headers(position):
        if header.last_offset >= start:
            position = at
            break
    for header, raw in directory.sound_batches(segments, number, position, may_be_torn=False):
        if header.last_offset >= start:
            yield header, raw


def _decoded(batches: Sequence[tuple[BatchHeader, memoryview]], where: str) -> Records:
    try:
        return Records(batches)
    except Malformed as error:
        raise PipelineError(f"{where}: {error}") from None


def _arrow(split: Split, batches: Sequence[tuple[BatchHeader, memoryview]], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    where = f"{split.topic}-{split.partition}"
    records = _decoded(batches, where)
    kept = np.flatnonzero((records.offsets >= split.start) & (records.offsets < split.end))
    if not kept.size:
        return
    arrays = []
    for name in columns:
        match name:
            case "key":
                array = records.keys(kept)
            case "value":
                array = records.values(kept)
            case "topic":
                array = pa.repeat(pa.scalar(split.topic), len(kept))
            case "partition":
                array = pa.array(np.full(len(kept), split.partition, np.int32))
            case "offset":
                array = pa.array(records.offsets[kept])
            case "timestamp":
                array = pa.array(records.timestamps_ms[kept] * 1000).cast(COLUMNS["timestamp"])
            case "timestampType":
                array = pa.array(records.timestamp_types[kept])
            case _:
                try:
                    array = records.headers(kept)
                except Malformed as error:
                    raise PipelineError(f"{where}: {error}") from None
        arrays.append(array)
    yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, COLUMNS[name]) for name in columns]))
