"""Opening a log: after a clean stop by its files, after a crash by reading what may be torn (LogLoader)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.storage import snapshot
from ottla.storage.filesystem import Filesystem, is_damage
from ottla.storage.log import Log
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    parse_file_name,
)
from ottla.storage.steps import run
from ottla.storage.transaction_history import TransactionHistory
from ottla.storage.txn_index import AbortedTxn

_LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found: segments checked, what was cut or removed, in words, and the transactions that were read."""

    segments_recovered: int = 0
    losses: list[str] = field(default_factory=list)
    history: TransactionHistory | None = None


def open_log(log: Log, now_ms: int, *, clean: bool, recovery_point: int = 0, log_start_offset: int | None = None) -> RecoveryReport:
    """Fill a fresh `Log` from its directory. Raises OSError: `Damaged` where files are not what they should be."""
    report = RecoveryReport()
    _finish_swaps(log.fs, log.directory, now_ms)
    names = _tidy(log.fs, log.directory)
    bases = [base for base in (parse_file_name(name, LOG_SUFFIX) for name in names) if base is not None]
    if not bases:
        log.log_start_offset = log.log_end_offset = log.high_watermark = log_start_offset or 0
        if clean:
            _check_end(log, report, recovery_point)
        return report
    log.epochs.load()
    log.segments = [Segment(log.fs, log.directory, base, now_ms) for base in bases]
    recovered = _load_segments(log, report, clean=clean, recovery_point=recovery_point)
    log.log_end_offset = log.high_watermark = log.active.last_next_offset()
    log.log_start_offset = max(log_start_offset or 0, log.segments[0].base_offset)
    if log.log_start_offset > log.log_end_offset:
        report.losses.append(f"log start {log.log_start_offset} after log end {log.log_end_offset}: all segments removed")
        _restart_at(log, log.log_start_offset, now_ms)
    if clean and not report.losses:
        _check_end(log, report, recovery_point)
    log.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
    log.epochs.truncate_end(log.log_end_offset)
    log.epochs.truncate_start(log.log_start_offset)
    report.history = _rebuild_producers(log, recovered)
    _write_rebuilt(log)
    return report


def _check_end(log: Log, report: RecoveryReport, recovery_point: int) -> None:
    """A clean stop writes all up to the log end, and the recovery point says where that was."""
    if log.log_end_offset < recovery_point:
        reason = f"{log.directory} ends at offset {log.log_end_offset}, and ended at {recovery_point} when it was closed"
        report.losses.append(reason)
        _drop_snapshots(log, log.log_end_offset)


def _finish_swaps(fs: Filesystem, directory: str, now_ms: int) -> None:
    """Finish or forget the exchange of cleaned segments for what they were made of (LogLoader.load, first three passes).

    A cleaned segment whose log is not called ``*.swap`` yet was not finished; one whose log is takes the place of all in its range.
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
        # The log came last, so it is in its place: what is called *.swap still is one of its indexes.
        if name.endswith(SWAP_SUFFIX):
            fs.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _tidy(fs: Filesystem, directory: str) -> list[str]:
    """Remove what an interrupted step left behind; the names that remain."""
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


def _load_segments(log: Log, report: RecoveryReport, *, clean: bool, recovery_point: int) -> list[int]:
    """Load or recover each segment; those, by number, whose transaction index must be made again."""
    recovered: list[int] = []
    for at, segment in enumerate(log.segments):
        is_last = at == len(log.segments) - 1
        below_point = not is_last and log.segments[at + 1].base_offset <= recovery_point
        # A file that was changed since the clean stop, or lost its end, shows at its end.
        if (clean or below_point) and segment.load() and (not is_last or segment.ends_soundly()):
            continue
        recovered.append(at)
        report.segments_recovered += 1
        next_offset, size_bytes, reason = segment.recover(log.config.index_interval_bytes)
        # Compaction leaves gaps, but only below a recovery point that it sets before; one of 0 may have got lost.
        may_have_gaps = below_point or (log.config.is_compacted and recovery_point == 0)
        if reason is None and not is_last and not may_have_gaps and next_offset < log.segments[at + 1].base_offset:
            # A power cut took the end of this segment exactly between two batches.
            reason = f"{segment.path(LOG_SUFFIX)} ends at offset {next_offset}, before the next segment begins"
        if reason is not None:
            _cut_after(log, at, next_offset, size_bytes, reason, report)
            break
    return recovered


def _cut_after(log: Log, at: int, next_offset: int, size_bytes: int, reason: str, report: RecoveryReport) -> None:
    """Nothing behind a bad batch can be trusted: later segments go (UnifiedLog.deleteProducerSnapshots, LogLoader.recoverLog).

    The bad batch itself goes last. Wherever this is interrupted, the next start finds it, cuts again and tells of it.
    """
    doomed, log.segments = log.segments[at + 1 :], log.segments[: at + 1]
    report.losses.append(reason if not doomed else f"{reason}; {len(doomed)} later segments removed")
    for segment in reversed(doomed):
        for path in segment.mark_deleted():
            log.fs.unlink(path)
    _drop_snapshots(log, next_offset)
    if size_bytes < log.segments[at].log.size:
        log.segments[at].log.truncate(size_bytes)


def _drop_snapshots(log: Log, behind: int) -> None:
    """Remove the producers' state as it was at offsets that the log does not have any more."""
    for offset in snapshot.offsets(log.fs, log.directory):
        if offset > behind:
            log.fs.unlink(snapshot.path_of(log.directory, offset))


def _restart_at(log: Log, offset: int, now_ms: int) -> None:
    for segment in log.segments:
        for path in segment.mark_deleted():
            log.fs.unlink(path)
    log.segments = [Segment(log.fs, log.directory, offset, now_ms)]
    log.log_end_offset = log.high_watermark = offset


def _rebuild_producers(log: Log, recovered: list[int]) -> TransactionHistory:
    """Newest snapshot that the recovered part does not need rebuilt, then every batch after it; what was read.

    A segment that was loaded between two recovered ones has its transaction index already.
    """
    at_most = log.log_end_offset
    if recovered and recovered[0] < len(log.segments):
        at_most = log.segments[recovered[0]].base_offset
    remade = set(recovered)
    start = snapshot.load_newest(log.fs, log.directory, log.producers, at_most)
    position = log.log_start_offset if start is None else start
    producers = log.producers
    history = TransactionHistory(producers, position, is_contiguous=start is not None or position == 0)
    for at in range(log.segment_at(position), len(log.segments)):
        segment = log.segments[at]
        if position >= log.log_end_offset:
            break
        for _, header, raw in segment.scan(segment.offset_index.lookup(position)):
            if header.last_offset < position:
                continue
            if header.leader_epoch > log.epochs.latest:
                log.epochs.restore(header.leader_epoch, header.base_offset)
            completed = history.apply(header, raw)
            if completed is not None and completed.is_aborted and at in remade:
                lso = producers.last_stable_offset_after(completed)
                segment.txn_index.restore(AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, lso))
    producers.drop_open_before(log.log_start_offset)
    return history


def _write_rebuilt(log: Log) -> None:
    """Bring to the files what was made anew, if the disk has room: a full one takes no log out of service. Raises `Damaged`.

    The rest is written before the log's segments are settled, and when it is closed.
    """
    try:
        run(log.write_rebuilt())
    except OSError as error:
        if is_damage(error):
            raise
