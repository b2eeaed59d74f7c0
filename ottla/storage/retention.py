"""Removes the segments of a log that are too old or exceed the log's size limit (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from ottla.storage.segment import DELETED_SUFFIX, Segment


def delete_old(log: Log, now_ms: int, at_most: int) -> list[str]:
    """Remove at most ``at_most`` of the oldest segments that are too old, exceed retention.bytes, or are below the log start.

    Returns the renamed files, which the caller unlinks later. Raises OSError if a rename fails: the segments are then already out
    of service, and the next call retries the renames.
    """
    log.renames.finish()
    if log.renames.has_retired:
        return log.renames.take_retired()
    gone = _removable(log, now_ms)
    if gone and gone == len(log.segments):
        if log.active.size_bytes == 0:
            gone -= 1
        else:
            try:
                log.roll(now_ms)
            except OSError:
                # If a full disk has no room for a new segment, remove the other segments nevertheless, to free space.
                gone -= 1
    if gone == 0:
        return []
    gone = min(gone, at_most)
    doomed, log.segments = log.segments[:gone], log.segments[gone:]
    if log.segments[0].base_offset > log.log_start_offset:
        log.start_at(log.segments[0].base_offset)
    log.drop_old_snapshots()
    log.renames.add(doomed, DELETED_SUFFIX)
    log.renames.finish()
    return log.renames.take_retired()


def _removable(log: Log, now_ms: int) -> int:
    if not log.segments:
        return 0
    gone = 0
    if log.config.is_deleted:
        gone = expired_count(log.segments, log.config, log.high_watermark, log.log_end_offset, now_ms)
    while gone < len(log.segments) - 1 and log.segments[gone + 1].base_offset <= log.log_start_offset:
        gone += 1
    return gone


def expired_count(segments: Sequence[Segment], config: LogConfig, high_watermark: int, log_end_offset: int, now_ms: int) -> int:
    """Number of the oldest segments that ``retention.ms`` or ``retention.bytes`` removes.

    Only segments that are wholly below the high watermark are removed.
    """
    deletable = sum(1 for segment in segments[1:] if segment.base_offset <= high_watermark)
    if log_end_offset <= high_watermark:
        deletable += 1
    candidates = segments[:deletable]
    return max(_too_old(candidates, config.retention_ms, now_ms), _too_much(segments, candidates, config.retention_bytes))


def _too_old(candidates: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment in candidates:
        newest_ms = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.created_ms
        if now_ms - newest_ms <= retention_ms:
            break
        count += 1
    return count


def _too_much(segments: Sequence[Segment], candidates: Sequence[Segment], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    surplus_bytes, count = sum(segment.size_bytes for segment in segments) - retention_bytes, 0
    for segment in candidates:
        if surplus_bytes < segment.size_bytes:
            break
        surplus_bytes -= segment.size_bytes
        count += 1
    return count
