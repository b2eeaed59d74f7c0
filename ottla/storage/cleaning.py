"""Compacting a log: which one, how far, and the exchange of its files (LogCleaner, LogCleanerManager, LocalLog.replaceSegments)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar, cast

import msgspec

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import BatchHeader, read_header
from ottla.storage.compaction import BATCH_WORK, KeyMap, LastBatches, Pass, TransactionsSeen, filter_batch, map_batch
from ottla.storage.filesystem import Filesystem, sync_dir, sync_file
from ottla.storage.log import Log
from ottla.storage.segment import CLEANED_SUFFIX, LOG_SUFFIX, Segment
from ottla.storage.steps import Pace, Steps
from ottla.storage.walk import MAX_RELATIVE_OFFSET

T = TypeVar("T")

LOOK_WORK = 5


class Interrupted(Exception):
    """The log lost a segment that was being cleaned, to retention or to the deletion of its topic."""


class Dirty(msgspec.Struct, frozen=True):
    """What there is to clean: from ``first_dirty_offset`` to ``bound``, where a segment begins that must stay as it is."""

    log: Log
    first_dirty_offset: int
    bound: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


class Cleaned(msgspec.Struct):
    """What a pass did."""

    bytes_before: int = 0
    bytes_after: int = 0


def dirtiness(log: Log, now_ms: int) -> Dirty | None:
    """How dirty a log is; None where it is not compacted or has nothing that may be cleaned."""
    if not log.config.is_compacted or log.is_failed or log.is_offline or log.renames.are_owed or len(log.segments) < 2:
        return None
    start = log.first_dirty_offset
    if not log.log_start_offset <= start <= log.log_end_offset:
        start = log.log_start_offset
    closed = log.segments[:-1]
    bound = _first_uncleanable(log, start, now_ms)
    dirty = [s for s in closed[log.segment_at(start) :] if s.base_offset < bound]
    if not dirty:
        return None
    until_ms = now_ms - log.config.max_compaction_lag_ms
    return Dirty(
        log,
        start,
        bound,
        sum(s.size_bytes for s in closed if s.base_offset < dirty[0].base_offset),
        sum(s.size_bytes for s in dirty),
        any(0 < s.first_timestamp_ms < until_ms for s in dirty),
    )


def _first_uncleanable(log: Log, start: int, now_ms: int) -> int:
    """Base of the first segment that is active, holds something undecided, or is too young (min.compaction.lag.ms)."""
    at = min(log.segment_at(log.last_stable_offset), len(log.segments) - 1)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for young in range(log.segment_at(start), at):
            if log.segments[young].max_timestamp_ms > now_ms - lag_ms:
                at = young
                break
    return log.segments[at].base_offset


def filthiest(logs: Iterable[Log], now_ms: int) -> Steps[Dirty | None]:
    """The log that needs it most, None where none is dirty enough."""
    best: Dirty | None = None
    pace = Pace()
    for log in logs:
        if pace.is_over(LOOK_WORK):
            yield None
        dirty = dirtiness(log, now_ms)
        if dirty is None or not dirty.dirty_bytes:
            continue
        if (dirty.is_overdue or dirty.ratio > log.config.min_cleanable_dirty_ratio) and (best is None or dirty.ratio > best.ratio):
            best = dirty
    return best


def clean(dirty: Dirty, now_ms: int, buffer_bytes: int) -> Steps[Cleaned]:
    """Clean a log whose closed segments are on the disk; moves its first dirty offset.

    Raises `Interrupted`, CORRUPT_MESSAGE for a log that cannot be read, `SyncFailed` where nobody knows what the disk has, and
    OSError where it refuses.
    """
    log, done = dirty.log, Cleaned()
    keys, pace = KeyMap(buffer_bytes), Pace()
    sources = [s for s in log.segments[:-1] if s.base_offset < dirty.bound]
    is_whole = yield from _guarded(log, sources, _map_keys(dirty, keys, pace))
    end_offset = keys.latest_offset + 1
    this = Pass(keys, LastBatches(log.producers), TransactionsSeen(), now_ms, log.config.delete_retention_ms, end_offset)
    for group in _groups(log, [s for s in sources if s.base_offset < end_offset]):
        cleaned = yield from _guarded(log, group, _rewrite(log, group, this, pace))
        done.bytes_before += sum(s.size_bytes for s in group)
        done.bytes_after += cleaned.size_bytes
        try:
            log.replace(group, cleaned)
        except OSError:
            if cleaned not in log.segments:
                _discard(log.fs, cleaned)
            raise
    log.first_dirty_offset = dirty.bound if is_whole else end_offset
    return done


def _guarded(log: Log, sources: list[Segment], steps: Steps[T]) -> Steps[T]:
    """Stop reading segments that are no longer the log's: ``steps`` get `Interrupted`, and may clean up."""
    error: Exception | None = None
    while True:
        if error is None and (log.is_failed or log.is_offline or not _are_there(log, sources)):
            error = Interrupted(f"{log.name} changed while it was cleaned")
        try:
            step = next(steps) if error is None else steps.throw(error)
        except StopIteration as ended:
            return cast(T, ended.value)
        error = None
        try:
            yield step
        except Exception as raised:
            error = raised


def _are_there(log: Log, sources: list[Segment]) -> bool:
    """Whether neighbours are still the log's; compared as a whole, for there may be thousands."""
    if not sources or sources[0] not in log.segments:
        return not sources
    at = log.segments.index(sources[0])
    return log.segments[at : at + len(sources)] == sources


def _map_keys(dirty: Dirty, keys: KeyMap, pace: Pace) -> Steps[bool]:
    """Fill the map from the dirty part; False when it is full before the end."""
    log, start = dirty.log, dirty.first_dirty_offset
    transactions = TransactionsSeen()
    transactions.expect(log.aborted_from(log.segment_at(start), start, dirty.bound))
    for segment in log.segments[log.segment_at(start) :]:
        if segment.base_offset >= dirty.bound:
            break
        for header, raw in _all_batches(segment, segment.offset_index.lookup(start)):
            if header.last_offset < start:
                continue
            if not (yield from map_batch(keys, transactions, raw, header, start, pace)):
                return False
            if pace.is_over(BATCH_WORK):
                yield None
    return True


def _all_batches(segment: Segment, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches from a file position on. Raises CORRUPT_MESSAGE where a header cannot be read.

    A walk ends there, and a segment that is written anew from it would silently lose what lies behind. `Damaged` would take
    the partition offline: as in Kafka, a log that cannot be cleaned is served on.
    """
    end = position
    for at, header, raw in segment.scan(position):
        end = at + header.size_bytes
        yield header, raw
    if end < segment.size_bytes:
        raise KafkaError(Code.CORRUPT_MESSAGE, f"{segment.path(LOG_SUFFIX)} cannot be read from byte {end} on")


def _groups(log: Log, segments: list[Segment]) -> list[list[Segment]]:
    """Neighbours that fit into one segment together (Cleaner.groupSegmentsBySize)."""
    config, groups = log.config, list[list[Segment]]()
    size = offsets_size = times_size = 0
    for at, segment in enumerate(segments):
        size += segment.size_bytes
        offsets_size += segment.offset_index.size_bytes
        times_size += segment.time_index.size_bytes
        fits = (
            size <= config.segment_bytes
            and max(offsets_size, times_size) <= config.segment_index_bytes
            and log.segments[at + 1].base_offset - 1 - (groups[-1][0].base_offset if groups else 0) <= MAX_RELATIVE_OFFSET
        )
        if groups and fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offsets_size, times_size = segment.size_bytes, segment.offset_index.size_bytes, segment.time_index.size_bytes
    return groups


def _rewrite(log: Log, group: list[Segment], this: Pass, pace: Pace) -> Steps[Segment]:
    """A new segment with what stays of a group, on the disk under ``*.cleaned`` names."""
    cleaned = Segment(log.fs, log.directory, group[0].base_offset, this.now_ms, CLEANED_SUFFIX)
    try:
        yield from _write(log, group, this, pace, cleaned)
    except Exception:
        # A half-written segment must not keep the last free bytes of a full disk, nor descriptors.
        _discard(log.fs, cleaned)
        raise
    return cleaned


def _discard(fs: Filesystem, cleaned: Segment) -> None:
    cleaned.close()
    for file in cleaned.files():
        with suppress(OSError):
            fs.unlink(file.path)


def _write(log: Log, group: list[Segment], this: Pass, pace: Pace, cleaned: Segment) -> Steps[None]:
    for leftover in cleaned.files():
        if leftover.size:
            leftover.truncate(0)
    cleaned.log.append(b"")
    seen = this.transactions
    for segment in group:
        following = log.segments[log.segments.index(segment) + 1].base_offset
        # Beyond the end of the pass as well: what stays there needs its entries (Kafka stops at the end, and loses them).
        seen.expect(log.aborted_from(log.segments.index(segment), segment.base_offset, following))
        for header, raw in _all_batches(segment, 0):
            kept = yield from filter_batch(this, raw, header, pace)
            if kept is not None:
                cleaned.append(kept, header.last_offset, read_header(kept).max_timestamp_ms, log.config.index_interval_bytes)
            for entry in seen.kept:
                cleaned.txn_index.append(entry)
            seen.kept.clear()
            if pace.is_over(BATCH_WORK):
                yield None
    cleaned.flush_indexes()
    paths = [f.path for f in cleaned.files() if f.size or f is cleaned.log]
    yield lambda: _sync(log.fs, paths, log.directory)


def _sync(fs: Filesystem, paths: list[str], directory: str) -> None:
    for path in paths:
        sync_file(fs, path)
    sync_dir(fs, directory)
