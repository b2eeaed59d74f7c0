"""Decides which records compaction keeps (org.apache.kafka.storage.internals.log.Cleaner and CleanedTransactionMetadata).

Of the records with the same key, compaction keeps the record with the largest offset. Tombstones, and markers whose transaction has
no records left, stay until their delete horizon; the first pass that reads them sets the horizon. Records of aborted transactions
are removed at once. The last batch of each producer stays, without records if necessary, because it contains the producer's
sequence. `storage.log_cleaner` applies these rules to a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import msgspec

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import MAX_RECORD_BYTES, RecordStream
from ottla.protocol.records import BatchHeader
from ottla.protocol.rewriting import RawRecord, RewrittenBatch, delete_horizon_ms, empty, split
from ottla.protocol.steps import Pace, in_thread, next_turn
from ottla.storage.producer_state import ProducerState
from ottla.storage.txn_index import AbortedTxn

ENTRY_OVERHEAD_BYTES = 200
"""Estimated memory of a `KeyMap` entry, besides the key's own bytes."""
BATCH_WORK = 10
"""Units of work, of about two microseconds (`Pace`), that a compaction pass counts for each batch, besides one for each record."""


class KeyMap:
    """The largest offset of each key in the dirty part of a log (OffsetMap). Holds at most ``limit_bytes`` of keys."""

    __slots__ = ("_free_bytes", "_offsets", "latest_offset")

    def __init__(self, limit_bytes: int) -> None:
        self._free_bytes = limit_bytes
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def put(self, key: bytes, offset: int) -> bool:
        """Record a key's offset. Returns False if the map has no room for another key; the first key always fits."""
        if key not in self._offsets:
            size = len(key) + ENTRY_OVERHEAD_BYTES
            if size > self._free_bytes and self._offsets:
                return False
            self._free_bytes -= size
        self._offsets[key] = offset
        self.latest_offset = offset
        return True

    def is_newest(self, key: bytes, offset: int) -> bool:
        return offset >= self._offsets.get(key, -1)


class _Aborted(msgspec.Struct):
    entry: AbortedTxn
    has_data: bool = False


class TransactionsSeen:
    """The transactions that are open at the current batch of a pass, and whether each of them was aborted later.

    A pass reads batches in offset order. `expect` must be called with the aborted transactions of a segment before its batches are
    read.
    """

    __slots__ = ("_aborted", "_committed", "_expected", "kept")

    def __init__(self) -> None:
        self._expected: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []
        """Aborted transactions that ended in the pass and still have batches. Their entries in the transaction index stay."""

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        for entry in aborted:
            heappush(self._expected, (entry.first_offset, entry.producer_id, entry))

    def _advance(self, last_offset: int) -> None:
        while self._expected and self._expected[0][0] <= last_offset:
            entry = heappop(self._expected)[2]
            self._aborted.setdefault(entry.producer_id, _Aborted(entry))

    def note_data_batch(self, header: BatchHeader) -> bool:
        """Record a data batch; returns whether its transaction was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_data = True
        return True

    def note_control_batch(self, batch: Buffer, header: BatchHeader) -> bool:
        """Record a control batch; returns whether the transaction that it ends has no batches left."""
        self._advance(header.last_offset)
        marker = read_marker(batch, header)
        if marker is None:
            return header.record_count == 0
        if marker.commit:
            had_data = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_data
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.has_data:
            return True
        self.kept.append(aborted.entry)
        return False


class LastBatches:
    """``header in last_batches`` is true for the last batch of each producer.

    This is the last data batch, from which recovery reads the producer's sequence, or a marker if no data batch is known.
    """

    __slots__ = ("_producers",)

    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers

    def __contains__(self, header: BatchHeader) -> bool:
        entry = self._producers.entries.get(header.producer_id)
        if entry is None or header.producer_id < 0:
            return False
        if entry.last_offset >= 0:
            return header.last_offset == entry.last_offset
        return header.is_control and header.producer_epoch == entry.epoch


class Pass(msgspec.Struct, frozen=True):
    """The settings and the state of one compaction pass over a log.

    The key map covers offsets below ``end_offset``. The last covered batch stays, without records if necessary, so that its offsets
    remain in the log.
    """

    keys: KeyMap
    last_batches: LastBatches
    transactions: TransactionsSeen
    now_ms: int
    delete_retention_ms: int
    end_offset: int
    max_record_bytes: int = MAX_RECORD_BYTES


async def map_batch(
    keys: KeyMap,
    transactions: TransactionsSeen,
    batch: Buffer,
    header: BatchHeader,
    start: int,
    pace: Pace,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> bool:
    """Put the keys of a batch, from offset ``start`` on, into the map. Returns False if the map is full.

    Raises `KafkaError` for a batch that cannot be read, or has a record larger than ``max_record_bytes``.
    """
    if header.is_control:
        transactions.note_control_batch(batch, header)
    elif not transactions.note_data_batch(header):
        stream = RecordStream(batch, header, keeps_keys=True, max_record_bytes=max_record_bytes)
        while True:
            records, count = await stream.next_records()
            if not count:
                break
            for record in split(records, count):
                offset = header.base_offset + record.offset_delta
                if record.key is not None and offset >= start and not keys.put(record.key, offset):
                    return False
                if pace.spend(1):
                    await next_turn()
    if header.last_offset >= start:
        keys.latest_offset = header.last_offset
    return True


class _Choice:
    """Which records of a batch stay. ``stays`` has a byte for each record: 1 if the record stays, else 0."""

    __slots__ = ("has_tombstones", "kept", "max_timestamp_delta_ms", "stays")

    def __init__(self) -> None:
        self.stays = bytearray()
        self.kept = 0
        self.has_tombstones = False
        self.max_timestamp_delta_ms = 0

    def add(self, record: RawRecord, *, stays: bool) -> None:
        self.stays.append(stays)
        if stays:
            delta = record.timestamp_delta
            self.max_timestamp_delta_ms = max(self.max_timestamp_delta_ms, delta) if self.kept else delta
            self.kept += 1
            self.has_tombstones |= record.is_tombstone


async def filter_batch(cleaning: Pass, batch: Buffer, header: BatchHeader, pace: Pace) -> Buffer | None:
    """The batch with the records that stay; None if the whole batch is removed.

    Raises `KafkaError` for a batch that cannot be read.
    """
    horizon_ms = delete_horizon_ms(header)
    is_spent = False
    if header.is_control:
        is_spent = cleaning.transactions.note_control_batch(batch, header)
        is_discarded = is_spent and horizon_ms is not None and horizon_ms <= cleaning.now_ms
    else:
        is_discarded = cleaning.transactions.note_data_batch(header)
    choice = _Choice()
    if not is_discarded and header.record_count:
        choice = await _chosen(cleaning, batch, header, horizon_ms, pace)
    if not choice.kept:
        if header in cleaning.last_batches or header.next_offset == cleaning.end_offset:
            return batch if header.record_count == 0 else empty(header)
        return None
    needs_horizon = horizon_ms is None and (is_spent or (choice.has_tombstones and not header.is_control))
    if choice.kept == header.record_count and not needs_horizon:
        return batch
    return await _rewritten(batch, header, choice, cleaning.now_ms + cleaning.delete_retention_ms if needs_horizon else None, pace)


async def _chosen(cleaning: Pass, batch: Buffer, header: BatchHeader, horizon_ms: int | None, pace: Pace) -> _Choice:
    """Choose the records that stay: the newest of each key, and records at or above the pass's ``end_offset``.

    Tombstones stay until the delete horizon ``horizon_ms``. Records without a key below ``end_offset`` are removed. All records of
    a control batch stay.
    """
    choice = _Choice()
    are_tombstones_kept = horizon_ms is None or cleaning.now_ms < horizon_ms
    keys = cleaning.keys
    stream = RecordStream(batch, header, keeps_keys=True, max_record_bytes=cleaning.max_record_bytes)
    while True:
        records, count = await stream.next_records()
        if not count:
            break
        for record in split(records, count):
            offset = header.base_offset + record.offset_delta
            is_wanted = are_tombstones_kept or not record.is_tombstone
            is_newest = is_wanted and record.key is not None and keys.is_newest(record.key, offset)
            choice.add(record, stays=header.is_control or offset > keys.latest_offset or is_newest)
            if pace.spend(1):
                await next_turn()
    if len(choice.stays) != header.record_count:
        reason = f"the batch at offset {header.base_offset} does not have its {header.record_count} records"
        raise KafkaError(Code.CORRUPT_MESSAGE, reason)
    return choice


async def _rewritten(batch: Buffer, header: BatchHeader, choice: _Choice, horizon_ms: int | None, pace: Pace) -> bytes:
    """The batch with only the chosen records. Large records are copied in pieces."""
    kept, stream, at = RewrittenBatch(header, horizon_ms), RecordStream(batch, header), 0
    while True:
        records, count = await stream.next_whole()
        for record in split(records, count):
            if choice.stays[at]:
                kept.add(records, record)
            at += 1
        if not count:
            if not stream.large_bytes:
                break
            await _copy_large(stream, kept, stays=bool(choice.stays[at]))
            at += 1
        if kept.is_full:
            await in_thread(kept.compress)
        if pace.spend(count):
            await next_turn()
    return kept.batch(choice.kept, choice.max_timestamp_delta_ms)


async def _copy_large(stream: RecordStream, kept: RewrittenBatch, *, stays: bool) -> None:
    size, done = stream.large_bytes, 0
    while done < size:
        part = await stream.take(size - done)
        if stays:
            kept.add_part(part) if done else kept.add_head(part, size)
        done += len(part)
        if kept.is_full:
            await in_thread(kept.compress)
