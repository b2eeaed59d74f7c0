"""Which segments of a log are too old or exceed the log's size limit (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.storage.config import LogConfig
from ottla.storage.segment import Segment


def expired_count(segments: Sequence[Segment], config: LogConfig, high_watermark: int, log_end_offset: int, now_ms: int) -> int:
    """How many of the oldest segments retention removes, by ``retention.ms`` or ``retention.bytes``.

    Only segments that lie wholly below the high watermark are removed.
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
