"""Truncates a follower's log to the offset up to which it agrees with its leader's log (KIP-101, KIP-279; LocalLog.truncateTo).

A crash during a truncation leaves the log whole or truncated in part. `LogDirectory.truncate` first lowers the checkpoint's
recovery point to the new end, so that the next start checks the remaining batches one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from ottla.invariants import CHECKED
from ottla.storage.filesystem import described
from ottla.storage.invariants import check_log
from ottla.storage.log import Log
from ottla.storage.rebuilding import drop_snapshots, reload_producers
from ottla.storage.segment import Segment
from ottla.storage.walk import DamagedBatch


def end_after(log: Log, offset: int) -> int:
    """The log end after `truncate_to`: ``offset``, or the base offset of a batch that has records on both sides of ``offset``.

    Raises `Damaged` if an index entry is wrong, and `DamagedBatch`.
    """
    if offset >= log.log_end_offset:
        return log.log_end_offset
    if not log.segments or offset <= log.segments[0].base_offset:
        return offset
    _, end = log.segments[log.segment_at(offset)].cut_at(offset)
    return end if end > log.log_start_offset else min(offset, log.log_start_offset)


def truncate_to(log: Log, offset: int, now_ms: int) -> None:
    """Remove every batch that has ``offset`` or a later offset, and rebuild the state derived from the batches.

    The log never ends inside a batch, so that the next fetch returns the whole batch. If no batch is left above the log start, the
    log becomes empty. Raises OSError and takes the log offline if the truncation fails.
    """
    if offset >= log.log_end_offset:
        # If this broker was a leader that resigned before its first batch, the leader epoch without batches is removed.
        log.epochs.truncate_end(log.log_end_offset)
        return
    end = end_after(log, offset)
    at = log.segment_at(offset)
    if not log.segments or end < log.segments[at].base_offset or end <= log.log_start_offset:
        truncate_fully_and_start_at(log, end, now_ms)
        return
    with _offline_where_refused(log):
        _forget_behind(log, end)
        doomed, log.segments = log.segments[at + 1 :], log.segments[: at + 1]
        _remove(log, doomed)
        position, _ = log.segments[at].cut_at(offset)
        # Replace the segment object by a copy: a reader that continues after a pause finds another object, and so notices that
        # batches have changed.
        log.segments[at] = copy(log.segments[at])
        log.segments[at].truncate(position, end, now_ms)
        _end_at(log, end, now_ms)


def truncate_fully_and_start_at(log: Log, offset: int, now_ms: int) -> None:
    """Remove all batches and continue at ``offset``, because the leader no longer has the next batch, or its log ends before this
    log begins.

    Raises OSError and takes the log offline if the truncation fails.
    """
    with _offline_where_refused(log):
        was_written = bool(log.segments)
        drop_snapshots(log, -1)
        doomed, log.segments = log.segments, []
        _remove(log, doomed)
        log.log_start_offset = offset
        log.high_watermark = offset
        if log.epochs.entries:
            log.epochs.refill(())
        if was_written:
            following = Segment(log.fs, log.directory, offset, now_ms)
            # Create the file now: the next start reads the log end from its name.
            following.log.append(b"")
            log.segments = [following]
        _end_at(log, offset, now_ms)


def _forget_behind(log: Log, end: int) -> None:
    """Remove the producer snapshots above the new end, before any batch is removed: snapshots of removed batches would be wrong."""
    drop_snapshots(log, end)
    log.high_watermark = min(log.high_watermark, end)


def _remove(log: Log, doomed: list[Segment]) -> None:
    """Remove segments, the newest first, so that a crash leaves no gap."""
    for segment in reversed(doomed):
        for path in segment.mark_deleted():
            log.fs.unlink(path)


def _end_at(log: Log, end: int, now_ms: int) -> None:
    log.log_end_offset = end
    log.truncations += 1
    log.recovery_point = min(log.recovery_point, end)
    log.recovery_point_checkpoint = min(log.recovery_point_checkpoint, end)
    log.first_dirty_offset = min(log.first_dirty_offset, end)
    log.epochs.truncate_end(end)
    reload_producers(log, now_ms)
    if CHECKED.whole_states:
        check_log(log)


@contextmanager
def _offline_where_refused(log: Log) -> Iterator[None]:
    """Take the log offline if a truncation fails half-way. The next start checks the end of the log batch by batch."""
    try:
        try:
            yield
        except DamagedBatch as damage:
            raise damage.as_lasting() from damage
    except OSError as error:
        log.offline_reason = f"a truncation was refused: {described(error)}"
        raise
