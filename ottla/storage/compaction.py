"""What compaction keeps of a log (org.apache.kafka.storage.internals.log.Cleaner and CleanedTransactionMetadata).

Of each key the record with the largest offset stays. Tombstones, and markers whose transaction has no data left, stay until
their delete horizon, which the first pass that sees them sets. Aborted data goes at once. The last batch of a producer stays, empty
if need be: it holds the producer's sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import msgspec

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.record_stream import RecordStream
from ottla.protocol.records import BatchHeader
from ottla.protocol.rewriting import Kept, RawRecord, delete_horizon_ms, empty, split
from ottla.storage.producer_state import ProducerState
from ottla.storage.steps import Pace, Steps
from ottla.storage.txn_index import AbortedTxn

ENTRY_OVERHEAD_BYTES = 200
"""What a key costs in `KeyMap` besides its own bytes."""
BATCH_WORK = 10


class KeyMap:
    """The largest offset of each key in the dirty part, within a bound of memory."""

    __slots__ = ("_free_bytes", "_offsets", "latest_offset")

    def __init__(self, limit_bytes: int) -> None:
        self._free_bytes = limit_bytes
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def put(self, key: bytes, offset: int) -> bool:
        """False where there is no room; the first key always has."""
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
    """Which transactions are under way in a pass over batches in order, and which of them were aborted."""

    __slots__ = ("_aborted", "_committed", "_expected", "kept")

    def __init__(self) -> None:
        self._expected: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []
        """Aborted transactions whose marker was passed and that still have batches: they stay in the index."""

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        for entry in aborted:
            heappush(self._expected, (entry.first_offset, entry.producer_id, entry))

    def _advance(self, last_offset: int) -> None:
        while self._expected and self._expected[0][0] <= last_offset:
            entry = heappop(self._expected)[2]
            self._aborted.setdefault(entry.producer_id, _Aborted(entry))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a batch of data; whether its transaction was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_data = True
        return True

    def ends_nothing(self, batch: Buffer, header: BatchHeader) -> bool:
        """Note a control batch; whether nothing is left of the transaction that it ends."""
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
    """Whether a batch is the last that a producer wrote, and so holds its sequence or its epoch."""

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
    """One pass over a log. ``end_offset`` is where it stops: its last batch stays, so that the log knows its offsets."""

    keys: KeyMap
    last_batches: LastBatches
    transactions: TransactionsSeen
    now_ms: int
    delete_retention_ms: int
    end_offset: int


def map_batch(
    keys: KeyMap, transactions: TransactionsSeen, batch: Buffer, header: BatchHeader, start: int, pace: Pace
) -> Steps[bool]:
    """Note the keys of a batch from offset ``start`` on; False where the map is full. Raises KafkaError."""
    if header.is_control:
        transactions.ends_nothing(batch, header)
    elif not transactions.is_aborted(header):
        stream = RecordStream(batch, header, keeps_keys=True)
        while True:
            records, count = yield from stream.next_records()
            if not count:
                break
            for record in split(records, count):
                offset = header.base_offset + record.offset_delta
                if record.key is not None and offset >= start and not keys.put(record.key, offset):
                    return False
                if pace.is_over(1):
                    yield None
    if header.last_offset >= start:
        keys.latest_offset = header.last_offset
    return True


class _Choice:
    """Which records of a batch stay: a byte for each, 1 for those that do."""

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


def filter_batch(this: Pass, batch: Buffer, header: BatchHeader, pace: Pace) -> Steps[Buffer | None]:
    """What stays of a batch, None for nothing. Raises KafkaError for a batch that cannot be read."""
    horizon_ms = delete_horizon_ms(header)
    ends_nothing = False
    if header.is_control:
        ends_nothing = this.transactions.ends_nothing(batch, header)
        is_discarded = ends_nothing and horizon_ms is not None and horizon_ms <= this.now_ms
    else:
        is_discarded = this.transactions.is_aborted(header)
    choice = _Choice()
    if not is_discarded and header.record_count:
        choice = yield from _chosen(this, batch, header, horizon_ms, pace)
    if not choice.kept:
        if header in this.last_batches or header.next_offset == this.end_offset:
            return batch if header.record_count == 0 else empty(header)
        return None
    needs_horizon = horizon_ms is None and (ends_nothing or (choice.has_tombstones and not header.is_control))
    if choice.kept == header.record_count and not needs_horizon:
        return batch
    return (yield from _rewritten(batch, header, choice, this.now_ms + this.delete_retention_ms if needs_horizon else None, pace))


def _chosen(this: Pass, batch: Buffer, header: BatchHeader, horizon_ms: int | None, pace: Pace) -> Steps[_Choice]:
    """The records that are the newest of their key; tombstones until the horizon, records without a key never.

    Of a control batch all.
    """
    choice = _Choice()
    are_tombstones_kept = horizon_ms is None or this.now_ms < horizon_ms
    keys = this.keys
    stream = RecordStream(batch, header, keeps_keys=True)
    while True:
        records, count = yield from stream.next_records()
        if not count:
            break
        for record in split(records, count):
            offset = header.base_offset + record.offset_delta
            is_wanted = are_tombstones_kept or not record.is_tombstone
            is_newest = is_wanted and record.key is not None and keys.is_newest(record.key, offset)
            choice.add(record, stays=header.is_control or offset > keys.latest_offset or is_newest)
            if pace.is_over(1):
                yield None
    if len(choice.stays) != header.record_count:
        reason = f"no {header.record_count} records in the batch at offset {header.base_offset}"
        raise KafkaError(Code.CORRUPT_MESSAGE, reason)
    return choice


def _rewritten(batch: Buffer, header: BatchHeader, choice: _Choice, horizon_ms: int | None, pace: Pace) -> Steps[bytes]:
    """The batch with the chosen records alone; what is large goes through it in pieces."""
    kept, stream, at = Kept(header, horizon_ms), RecordStream(batch, header), 0
    while True:
        records, count = yield from stream.next_whole()
        for record in split(records, count):
            if choice.stays[at]:
                kept.add(records, record)
            at += 1
        if not count:
            if not stream.large_bytes:
                break
            yield from _copy_large(stream, kept, stays=bool(choice.stays[at]))
            at += 1
        if kept.is_full:
            yield kept.compress
        if pace.is_over(count):
            yield None
    return kept.batch(choice.kept, choice.max_timestamp_delta_ms)


def _copy_large(stream: RecordStream, kept: Kept, *, stays: bool) -> Steps[None]:
    size, done = stream.large_bytes, 0
    while done < size:
        part = yield from stream.take(size - done)
        if stays:
            kept.add_part(part) if done else kept.add_head(part, size)
        done += len(part)
        if kept.is_full:
            yield kept.compress
