"""Opens a log: after a clean stop from its index files, after a crash by reading every batch that may be incomplete (LogLoader).

The recovery point is the offset up to which the log was synced. A crash cannot damage a batch below the recovery point, so damage
there has another cause. The batches after such damage were acknowledged, so nothing is truncated: `Damaged` takes the partition
offline. Damage above the recovery point may come from a crash, and the log is truncated there, as by Apache Kafka. A clean stop
moves the recovery point to the log end.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import msgspec

from ottla.protocol.steps import run
from ottla.storage import snapshot
from ottla.storage.checkpoints import LEADER_EPOCH_FILE, RECOVERY_POINTS
from ottla.storage.filesystem import Damaged, Filesystem, is_damage
from ottla.storage.log import Log
from ottla.storage.rebuilding import drop_snapshots, history_up_to, remake_transaction_indexes, take
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_ABORTED,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Recovered,
    Segment,
    file_name,
    parse_file_name,
)
from ottla.storage.transaction_history import TransactionHistory
from ottla.storage.txn_index import checksum_of
from ottla.storage.walk import DamagedBatch, SoundBatches, whole_batches_behind

_LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class RecoveryReport(msgspec.Struct):
    """The result of opening a log.

    ``losses`` has a line for each part that was truncated or removed. ``rebuilt`` names the indexes and other files that did not
    match the log and were rebuilt from its batches. ``history`` has the transactions of the batches that were read.
    """

    segments_recovered: int = 0
    losses: list[str] = msgspec.field(default_factory=list)
    rebuilt: list[str] = msgspec.field(default_factory=list)
    has_false_start: bool = False
    """Whether the given log start offset was beyond the end of a cleanly closed log, and was ignored."""
    history: TransactionHistory | None = None


def open_log(
    log: Log,
    now_ms: int,
    *,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int | None = None,
    aborted_checksum: int | None = None,
    may_be_compacted: bool = False,
    high_watermark: int | None = None,
) -> RecoveryReport:
    """Fill a new `Log` from its directory. Raises OSError, and its subclass `Damaged` if a file is not as it was written.

    - ``clean``: the broker closed the directory cleanly. A log with recovery point 0 is recovered nevertheless.
    - ``aborted_checksum``: the checksum of the log's aborted transactions at the last clean stop; None if unknown.
    - ``may_be_compacted``: compaction may have left gaps after the recovery point, so a gap is no sign of lost data.
    - ``high_watermark``: from the checkpoint; None for a log without other replicas, whose records are all committed.
    """
    report = RecoveryReport()
    clean = clean and recovery_point > 0
    _finish_swaps(log.fs, log.directory, now_ms)
    names = _tidy(log.fs, log.directory)
    bases = [base for base in (parse_file_name(name, LOG_SUFFIX) for name in names) if base is not None]
    if not bases:
        log.log_start_offset = log.log_end_offset = log.high_watermark = log_start_offset or 0
        _check_end(log, recovery_point, clean=clean)
        return report
    has_epochs = log.epochs.load()
    log.segments = [Segment(log.fs, log.directory, base, now_ms) for base in bases]
    history, remade = _load_segments(
        log, report, now_ms, clean=clean, recovery_point=recovery_point, is_gapless=not may_be_compacted
    )
    if clean and aborted_checksum is not None and not remade and checksum_of(s.txn_index for s in log.segments) != aborted_checksum:
        report.rebuilt.append("the index of aborted transactions")
        remade = _recover_all(log, report)
    log.log_end_offset = log.active.last_next_offset()
    _check_end(log, recovery_point, clean=clean)
    if clean and log.log_end_offset > recovery_point:
        _check_beyond(log, report, recovery_point)
    log.epochs.truncate_end(log.log_end_offset)
    if not has_epochs or (clean and log.epochs.latest != log.active.last_leader_epoch(log.epochs.latest)):
        report.rebuilt.append(LEADER_EPOCH_FILE)
        _refill_epochs(log)
    if clean and (log_start_offset or 0) > log.log_end_offset:
        report.rebuilt.append(f"the log start, which was {log_start_offset}, after the log end")
        report.has_false_start, log_start_offset = True, None
    log.log_start_offset = max(log_start_offset or 0, log.segments[0].base_offset)
    if log.log_start_offset > log.log_end_offset:
        report.losses.append(f"log start {log.log_start_offset} after log end {log.log_end_offset}: all segments removed")
        _restart_at(log, log.log_start_offset, now_ms)
    log.recovery_point_checkpoint = min(recovery_point, log.log_end_offset)
    log.recovery_point = log.log_end_offset if clean else log.recovery_point_checkpoint
    if _lacks_epochs(log):
        _refill_epochs(log)
    log.epochs.truncate_start(log.log_start_offset)
    end = log.log_end_offset
    log.high_watermark = end if high_watermark is None else min(max(high_watermark, log.log_start_offset), end)
    if not clean:
        # A truncation that a crash interrupted may have left snapshots at offsets that the log no longer has.
        drop_snapshots(log, end)
    snapshots = snapshot.offsets(log.fs, log.directory)
    report.history = history_up_to(log, log.log_end_offset, now_ms) if history is None else history
    log.producers.drop_open_before(log.log_start_offset)
    remake_transaction_indexes(log, remade)
    if snapshot.offsets(log.fs, log.directory) != snapshots:
        report.rebuilt.append("the producer snapshot")
    _write_rebuilt(log)
    return report


def _refill_epochs(log: Log) -> None:
    log.epochs.refill((h.leader_epoch, h.base_offset) for segment in log.segments for _, h in segment.headers(0))


def _lacks_epochs(log: Log) -> bool:
    """Whether the log has records below its first leader epoch, because a crash undid the deletion of those records."""
    entries = log.epochs.entries
    if not entries or entries[0][1] <= log.log_start_offset:
        return False
    first = next((header for segment in log.segments for _, header in segment.headers(0)), None)
    return first is not None and first.base_offset < entries[0][1]


def _check_end(log: Log, recovery_point: int, *, clean: bool) -> None:
    """Raise `Damaged` if the log ends before its recovery point, or has no files after a clean stop."""
    if log.log_end_offset < recovery_point or (clean and not log.segments):
        raise _other_end(log, recovery_point, clean=clean)


def _other_end(log: Log, recovery_point: int, *, clean: bool) -> Damaged:
    path = log.active.path(LOG_SUFFIX) if log.segments else log.directory
    known = f"ended at {recovery_point} when it was closed" if clean else f"was on the disk up to {recovery_point}"
    return Damaged(path, f"the log ends at offset {log.log_end_offset}, and {known}, as {RECOVERY_POINTS} says")


def _finish_swaps(fs: Filesystem, directory: str, now_ms: int) -> None:
    """Finish or undo replacements by cleaned segments that a crash interrupted (LogLoader.load, first three passes).

    A cleaned segment whose log is still named ``*.cleaned`` is removed. A segment whose log is named ``*.swap`` replaces all
    segments in its range of offsets.
    """
    names = [n for n in fs.list_dir(directory) if n.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    unfinished = {n.partition(".")[0] for n in names if n.endswith(LOG_SUFFIX + CLEANED_SUFFIX)}
    for name in names:
        if name.partition(".")[0] in unfinished:
            fs.unlink(f"{directory}/{name}")
    for name in names:
        stem = parse_file_name(name, LOG_SUFFIX + SWAP_SUFFIX)
        if stem is None or name.partition(".")[0] in unfinished:
            continue
        swapped = Segment(fs, directory, stem, now_ms, SWAP_SUFFIX)
        end = swapped.last_next_offset()
        swapped.close()
        for old in fs.list_dir(directory):
            for kind in (LOG_SUFFIX, *_INDEX_SUFFIXES):
                base = parse_file_name(old, kind)
                if base is not None and stem <= base < max(end, stem + 1):
                    fs.unlink(f"{directory}/{old}")
        swapped.rename("")
    for name in fs.list_dir(directory):
        # The loop above has given all log files their final names. A file that is still named *.swap is an index of such a log.
        if name.endswith(SWAP_SUFFIX):
            fs.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _tidy(fs: Filesystem, directory: str) -> list[str]:
    """Remove leftovers of interrupted work, and indexes without a log; returns the names of the files that remain."""
    names = fs.list_dir(directory)
    logs = {n[: -len(LOG_SUFFIX)] for n in names if n.endswith(LOG_SUFFIX)}
    kept = []
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        orphan = dot + suffix in _INDEX_SUFFIXES and stem not in logs
        if name.endswith(_LEFTOVERS) or orphan:
            fs.unlink(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def _load_segments(
    log: Log, report: RecoveryReport, now_ms: int, *, clean: bool, recovery_point: int, is_gapless: bool
) -> tuple[TransactionHistory | None, list[int]]:
    """Load the segments that a clean stop or the recovery point covers, and recover all other segments.

    Recovering a segment reads it once, checks its batches, rebuilds its indexes and updates the producers. Returns the history of
    the recovered segments, or None. Also returns the numbers of the covered segments whose indexes did not match their log: the
    caller must rebuild their transaction indexes.
    """
    history: TransactionHistory | None = None
    remade: list[int] = []
    for at, segment in enumerate(log.segments):
        is_last = at == len(log.segments) - 1
        below_point = not is_last and log.segments[at + 1].base_offset <= recovery_point
        is_settled = clean or below_point
        if is_settled and segment.load(log.config.index_interval_bytes) and (not is_last or segment.ends_soundly()):
            continue
        if is_settled:
            if not is_last:
                _check_is_not_cut(segment, log.segments[at + 1].base_offset)
            remade.append(at)
        elif history is None:
            history = history_up_to(log, segment.base_offset, now_ms)
        report.segments_recovered += 1
        # The last segment is never compacted, so a batch in it with offsets on both sides of the recovery point is damaged.
        on_batch = None if history is None else partial(take, log, segment, history)
        sound = segment.recover(log.config.index_interval_bytes, recovery_point if is_last else 0, on_batch)
        reason = sound.reason
        # Compaction advances the recovery point before it removes records, so a gap above the recovery point is a loss. A recovery
        # point of 0 may mean that the checkpoint file was lost, so gaps in a compacted log are accepted then.
        may_have_gaps = below_point or not is_gapless or (log.config.is_compacted and recovery_point == 0)
        if reason is None and not is_last and not may_have_gaps and sound.next_offset < log.segments[at + 1].base_offset:
            # A power cut removed the end of this segment, exactly from a batch boundary on.
            reason = f"the segment ends at offset {sound.next_offset}, before the next segment begins"
        if reason is not None:
            lost = _lost_behind(log, at, sound)
            if sound.damaged_offset < recovery_point or (clean and sound.next_offset > recovery_point):
                raise Damaged(
                    segment.log.path,
                    f"{reason}, and {lost} follow; everything up to offset {recovery_point} had been synced to the disk",
                )
            report.losses.append(f"{segment.log.path}: {reason}; {lost} were removed")
            _cut_after(log, at, sound)
            break
        if is_settled:
            report.rebuilt.append(f"the indexes of {file_name(segment.base_offset, LOG_SUFFIX)}")
    return history, remade


def missing_end(segment: Segment, limit: int) -> int | None:
    """The end offset of a segment whose indexes name later batches that are missing; None if no batches are missing.

    ``limit`` is the base offset of the next segment: an index with offsets at or above it is damaged itself. Changes no file, so
    that a later start has the same result.
    """
    ends = [segment.base_offset]
    for index in (segment.offset_index, segment.time_index):
        if 0 < index.stored <= MAX_ABORTED and index.load():
            ends.append(index.last[1] + 1)
    if not segment.base_offset < max(ends) <= limit:
        return None
    next_offset = segment.base_offset
    # If the log is damaged before its end, `Segment.recover` reports it.
    with suppress(DamagedBatch):
        for _, header in segment.headers(0):
            next_offset = header.next_offset
        if next_offset < max(ends):
            return next_offset
    return None


def _check_is_not_cut(segment: Segment, following: int) -> None:
    """Raise `Damaged` if a segment's file lost its last batches, exactly from a batch boundary on."""
    missing = missing_end(segment, following)
    if missing is not None:
        wrong = f"the segment ends at offset {missing}, but its index continues; the next segment begins at offset {following}"
        raise Damaged(segment.log.path, wrong)


def _check_beyond(log: Log, report: RecoveryReport, recovery_point: int) -> None:
    """Check the batches of a cleanly closed log above its recovery point. Raises `Damaged`.

    Such a log has an older checkpoint, or another broker has appended to it. No data is lost, and Apache Kafka serves the log. But
    no clean stop recorded those batches, so their CRCs are checked. The CRC does not cover offsets, so the last segment, which is
    never compacted, must also have every offset.
    """
    for segment in log.segments[log.segment_at(recovery_point) :]:
        sound = SoundBatches(segment.log, segment.base_offset)
        for _ in sound:
            pass
        if not sound.is_whole:
            raise sound.damage()
        if segment is log.active and not sound.is_gapless:
            raise _other_end(log, recovery_point, clean=True)
    report.rebuilt.append(f"the recovery point, which was {recovery_point}, while the log is sound up to {log.log_end_offset}")


def _recover_all(log: Log, report: RecoveryReport) -> list[int]:
    """Rebuild all indexes of a cleanly closed log whose transaction indexes lack some aborted transactions.

    Returns the numbers of all segments, whose transaction indexes the caller must fill. Raises `Damaged`.
    """
    for segment in log.segments:
        sound = segment.recover(log.config.index_interval_bytes)
        if sound.reason is not None:
            raise Damaged(segment.log.path, sound.reason)
    report.segments_recovered = len(log.segments)
    return list(range(len(log.segments)))


def _lost_behind(log: Log, at: int, sound: Recovered) -> str:
    """Describe the data after the sound part of segment ``at``, which a person may want to restore."""
    size_bytes = log.segments[at].size_bytes - sound.size_bytes
    batches = whole_batches_behind(log.segments[at].log, sound.size_bytes, sound.damaged_offset).batch_count
    doomed = log.segments[at + 1 :]
    for segment in doomed:
        size_bytes += segment.size_bytes
        batches += whole_batches_behind(segment.log, 0, segment.base_offset).batch_count
    later = f" and {len(doomed)} later segments" if doomed else ""
    return f"{size_bytes} bytes with {batches} whole batches{later}"


def _cut_after(log: Log, at: int, sound: Recovered) -> None:
    """Remove everything after the sound part of segment ``at``, including later segments (LogLoader.recoverLog).

    The bad batch itself is removed last. So if a crash interrupts this function, the next start reads the bad batch again,
    truncates again and reports the loss.
    """
    doomed, log.segments = log.segments[at + 1 :], log.segments[: at + 1]
    for segment in reversed(doomed):
        for path in segment.mark_deleted():
            log.fs.unlink(path)
    drop_snapshots(log, sound.next_offset)
    if sound.size_bytes < log.segments[at].log.size:
        log.segments[at].log.truncate(sound.size_bytes)


def _restart_at(log: Log, offset: int, now_ms: int) -> None:
    for segment in log.segments:
        for path in segment.mark_deleted():
            log.fs.unlink(path)
    log.segments = [Segment(log.fs, log.directory, offset, now_ms)]
    log.log_end_offset = offset


def _write_rebuilt(log: Log) -> None:
    """Write the rebuilt files. A full disk does not stop the start: the files are then written before the next sync of segments.

    Raises `Damaged` and other errors that mean that the disk cannot be trusted (`is_damage`).
    """
    try:
        run(log.write_rebuilt())
    except OSError as error:
        if is_damage(error):
            raise
