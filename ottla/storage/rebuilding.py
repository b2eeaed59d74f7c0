"""Rebuilds state from a log's batches: producers, open transactions, transaction indexes and leader epochs.

Used by a broker that starts after a crash, and by a truncation for the remaining log.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader
from ottla.storage import snapshot
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import Segment
from ottla.storage.transaction_history import TransactionHistory
from ottla.storage.txn_index import AbortedTxn
from ottla.storage.walk import DamagedBatch


def drop_snapshots(log: Log, behind: int) -> None:
    """Remove the producer snapshots above offset ``behind``, where the log no longer has batches (deleteProducerSnapshots)."""
    for offset in snapshot.offsets(log.fs, log.directory):
        if offset > behind:
            log.fs.unlink(snapshot.path_of(log.directory, offset))


def history_up_to(log: Log, at_most: int, now_ms: int) -> TransactionHistory:
    """Fill ``log.producers`` from the newest snapshot and the batches before offset ``at_most``; returns the history of these
    batches.

    ``at_most`` is the base offset of a segment or the log end.
    """
    start = snapshot.load_newest(log.fs, log.directory, log.producers, at_most)
    # Begin with the first segment, not with the log start: batches that DeleteRecords has deleted are still in the file, and a
    # client may send the last of these batches again.
    position = log.segments[0].base_offset if start is None else start
    is_contiguous = start is not None or position == 0
    history = TransactionHistory(log.producers, position, is_contiguous=is_contiguous, read_ms=now_ms)
    for _, header, raw in _loaded_batches(log, position, at_most):
        _note_epoch(log, header)
        history.apply(header, raw)
    return history


def _loaded_batches(log: Log, start: int, end: int) -> Iterator[tuple[Segment, BatchHeader, memoryview]]:
    """Yield the batches from offset ``start`` to ``end``, the beginning or end of a segment. The segments must be loaded.

    Raises `Damaged` if a batch is damaged, because its effect on the state of its producer is unknown.
    """
    for segment in log.segments[log.segment_at(start) :] if start < end else ():
        if segment.base_offset >= end:
            break
        try:
            for _, header, raw in segment.scan(segment.offset_index.lookup(start)):
                if header.last_offset >= start:
                    yield segment, header, raw
        except DamagedBatch as damage:
            raise damage.as_lasting() from damage


def take(log: Log, segment: Segment, history: TransactionHistory, header: BatchHeader, raw: Buffer) -> None:
    """Apply the next batch of a segment whose transaction index is rebuilt, and add an entry if the batch aborts a transaction."""
    _note_epoch(log, header)
    completed = history.apply(header, raw)
    if completed is not None and completed.is_aborted:
        lso = history.producers.last_stable_offset_after(completed)
        segment.txn_index.restore(AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, lso))


def _note_epoch(log: Log, header: BatchHeader) -> None:
    if header.leader_epoch > log.epochs.latest:
        log.epochs.restore(header.leader_epoch, header.base_offset)


def remake_transaction_indexes(log: Log, remade: list[int]) -> None:
    """Rebuild the transaction indexes of the segments at the positions ``remade`` in `Log.segments` from the segments' batches.

    An entry needs the first offset of its transaction, which may be in an earlier segment. So the batches are applied to a second
    `ProducerState` that begins below these segments; the log's own state is already that of the log end. The second state begins
    with a snapshot if one exists, because only a snapshot has the producers whose records retention or compaction has deleted
    (LogLoader.recoverSegment).
    """
    if not remade:
        return
    first, last = (log.segments[at] for at in (remade[0], remade[-1]))
    end = last.last_next_offset()
    producers = ProducerState()
    start = snapshot.load_newest(log.fs, log.directory, producers, first.base_offset)
    position = log.segments[0].base_offset if start is None else start
    history = TransactionHistory(producers, position, is_contiguous=False)
    wanted = {log.segments[at].base_offset for at in remade}
    for segment, header, raw in _loaded_batches(log, position, end):
        if segment.base_offset in wanted:
            take(log, segment, history, header, raw)
        else:
            history.apply(header, raw)


def reload_producers(log: Log, now_ms: int) -> None:
    """Rebuild the producers' state from the newest snapshot and the batches after it (ProducerStateManager.truncateAndReload).

    Also finds the transactions with a marker at or above the high watermark.
    """
    log.producers.replace(())
    log.unreplicated.clear()
    if not log.segments:
        return
    history_up_to(log, log.log_end_offset, now_ms)
    log.producers.drop_open_before(log.log_start_offset)
    find_unreplicated(log)


def find_unreplicated(log: Log) -> None:
    """Find the transactions with a marker at or above the high watermark, which limit the last stable offset (`unreplicated`).

    The newest snapshot may be above the high watermark, and then lacks the transactions that were open there. So a second state is
    built from an earlier snapshot. Raises OSError if the log cannot be read.
    """
    log.unreplicated.clear()
    if not log.segments or log.high_watermark == log.log_end_offset:
        return
    producers = ProducerState()
    start = snapshot.load_newest(log.fs, log.directory, producers, log.high_watermark)
    position = log.segments[0].base_offset if start is None else start
    history = TransactionHistory(producers, position, is_contiguous=False)
    for _, header, raw in _loaded_batches(log, position, log.log_end_offset):
        completed = history.apply(header, raw)
        if completed is not None and completed.last_offset >= log.high_watermark:
            log.unreplicated.append(completed)
