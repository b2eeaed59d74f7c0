"""Compacts logs (LogCleaner, LogCleanerManager and LocalLog.replaceSegments of Kafka): chooses a log and the part to clean, and
replaces segments with cleaned segments. `storage.compaction_rules` decides which records stay."""

from __future__ import annotations

import types
from collections.abc import Generator, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar, cast

import msgspec

from ottla.protocol.records import read_header
from ottla.protocol.steps import Pace, Step, Steps, in_thread, next_turn
from ottla.storage.compaction_rules import BATCH_WORK, KeyMap, LastBatches, Pass, TransactionsSeen, filter_batch, map_batch
from ottla.storage.filesystem import Filesystem, sync_dir, sync_file
from ottla.storage.log import Log
from ottla.storage.segment import CLEANED_SUFFIX, Segment
from ottla.storage.walk import MAX_RELATIVE_OFFSET

T = TypeVar("T")

DIRTINESS_WORK = 5
"""Units of work, of about two microseconds (`Pace`), that are counted for computing one log's `dirtiness`."""


class Interrupted(Exception):
    """Retention or a topic deletion removed a segment while the cleaner was reading it."""


class Dirty(msgspec.Struct, frozen=True):
    """The dirty part of a log: offsets from ``first_dirty_offset`` up to ``bound``, exclusive.

    ``bound`` is the base offset of the first segment that may not be cleaned yet. ``clean_bytes`` is the size of the segments
    before the dirty part. ``is_overdue``: a dirty segment is older than ``max.compaction.lag.ms``.
    """

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
    """The result of cleaning a log: the total size of the rewritten segments, before and after."""

    bytes_before: int = 0
    bytes_after: int = 0


def dirtiness(log: Log, now_ms: int) -> Dirty | None:
    """The dirty part of a log; None if the log is not compacted, or has no segment that may be cleaned."""
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
    """Base offset of the first segment that is active, contains the last stable offset, or is younger than
    min.compaction.lag.ms."""
    at = min(log.segment_at(log.last_stable_offset), len(log.segments) - 1)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for young in range(log.segment_at(start), at):
            if log.segments[young].max_timestamp_ms > now_ms - lag_ms:
                at = young
                break
    return log.segments[at].base_offset


async def filthiest(logs: Iterable[Log], now_ms: int) -> Dirty | None:
    """The dirty part of the log with the largest dirty ratio; None if no log is dirty enough (grabFilthiestCompactedLog)."""
    best: Dirty | None = None
    pace = Pace()
    for log in logs:
        if pace.spend(DIRTINESS_WORK):
            await next_turn()
        dirty = dirtiness(log, now_ms)
        if dirty is None or not dirty.dirty_bytes:
            continue
        if (dirty.is_overdue or dirty.ratio > log.config.min_cleanable_dirty_ratio) and (best is None or dirty.ratio > best.ratio):
            best = dirty
    return best


async def clean(dirty: Dirty, now_ms: int, buffer_bytes: int) -> Cleaned:
    """Clean a log and move its first dirty offset. The caller must have synced the log's closed segments.

    Damage stops the cleaning: a cleaned segment would lose the damaged batches without an error, or give them a correct CRC. As in
    Kafka, the log is still served.

    Raises `Interrupted`, CORRUPT_MESSAGE for a log that cannot be read (`DamagedBatch` for a damaged log), `SyncFailed` if a sync
    of a cleaned segment failed, and OSError if a write or a rename failed.
    """
    log, done = dirty.log, Cleaned()
    keys, pace = KeyMap(buffer_bytes), Pace()
    sources = [s for s in log.segments[:-1] if s.base_offset < dirty.bound]
    is_whole = await _guarded(log, sources, _map_keys(dirty, keys, pace))
    end_offset = keys.latest_offset + 1
    cleaning = Pass(
        keys,
        LastBatches(log.producers),
        TransactionsSeen(),
        now_ms,
        log.config.delete_retention_ms,
        end_offset,
        log.config.max_decompressed_message_bytes,
    )
    for group in _groups(log, [s for s in sources if s.base_offset < end_offset]):
        cleaned = await _guarded(log, group, _rewrite(log, group, cleaning, pace))
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


@types.coroutine
def _guarded(log: Log, sources: list[Segment], steps: Steps[T]) -> Generator[Step, None, T]:
    """Run the coroutine ``steps`` as long as ``sources`` are segments of the log, else throw `Interrupted` into it."""
    error: Exception | None = None
    while True:
        if error is None and (log.is_failed or log.is_offline or not _are_there(log, sources)):
            error = Interrupted(f"{log.name} changed while it was compacted")
        try:
            step = steps.send(None) if error is None else steps.throw(error)
        except StopIteration as ended:
            return cast(T, ended.value)
        error = None
        try:
            yield step
        except Exception as raised:
            error = raised


def _are_there(log: Log, sources: list[Segment]) -> bool:
    """Whether adjacent segments are still in the log. Comparing slices is fast for thousands of segments."""
    if not sources or sources[0] not in log.segments:
        return not sources
    at = log.segments.index(sources[0])
    return log.segments[at : at + len(sources)] == sources


async def _map_keys(dirty: Dirty, keys: KeyMap, pace: Pace) -> bool:
    """Put the keys of the dirty part into the map. Returns False if the map is full before the end of the dirty part."""
    log, start = dirty.log, dirty.first_dirty_offset
    transactions = TransactionsSeen()
    transactions.expect(log.aborted_from(log.segment_at(start), start, dirty.bound))
    for segment, following in pairwise(log.segments[log.segment_at(start) :]):
        if segment.base_offset >= dirty.bound:
            break
        for _, header, raw in segment.scan(segment.offset_index.lookup(start), limit=following.base_offset):
            if header.last_offset < start:
                continue
            if not (await map_batch(keys, transactions, raw, header, start, pace, log.config.max_decompressed_message_bytes)):
                return False
            if pace.spend(BATCH_WORK):
                await next_turn()
    return True


def _groups(log: Log, segments: list[Segment]) -> list[list[Segment]]:
    """Groups of adjacent segments, each small enough to become one segment (Cleaner.groupSegmentsBySize)."""
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


async def _rewrite(log: Log, group: list[Segment], cleaning: Pass, pace: Pace) -> Segment:
    """Write the retained records of a group to a new segment with ``*.cleaned`` names, and sync it."""
    cleaned = Segment(log.fs, log.directory, group[0].base_offset, cleaning.now_ms, CLEANED_SUFFIX)
    try:
        await _write(log, group, cleaning, pace, cleaned)
    except Exception:
        # A half-written segment must not occupy the last free bytes of a full disk or keep file descriptors.
        _discard(log.fs, cleaned)
        raise
    return cleaned


def _discard(fs: Filesystem, cleaned: Segment) -> None:
    cleaned.close()
    for file in cleaned.files():
        with suppress(OSError):
            fs.unlink(file.path)


async def _write(log: Log, group: list[Segment], cleaning: Pass, pace: Pace, cleaned: Segment) -> None:
    for leftover in cleaned.files():
        if leftover.size:
            leftover.truncate(0)
    cleaned.log.append(b"")
    seen = cleaning.transactions
    for segment in group:
        following = log.segments[log.segments.index(segment) + 1].base_offset
        # Include aborted transactions above the pass's end offset: the batches there stay and need their index entries, which Kafka
        # loses.
        seen.expect(log.aborted_from(log.segments.index(segment), segment.base_offset, following))
        for _, header, raw in segment.scan(limit=following):
            kept = await filter_batch(cleaning, raw, header, pace)
            if kept is not None:
                cleaned.append(kept, header.last_offset, read_header(kept).max_timestamp_ms, log.config.index_interval_bytes)
            for entry in seen.kept:
                cleaned.txn_index.append(entry)
            seen.kept.clear()
            if pace.spend(BATCH_WORK):
                await next_turn()
    cleaned.flush_indexes()
    paths = [f.path for f in cleaned.files() if f.size or f is cleaned.log]
    await in_thread(lambda: _sync(log.fs, paths, log.directory))


def _sync(fs: Filesystem, paths: list[str], directory: str) -> None:
    for path in paths:
        sync_file(fs, path)
    sync_dir(fs, directory)
