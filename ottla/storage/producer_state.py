"""The state of a partition's producers: their last batches, sequences, epochs and open transactions.

ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of Kafka in one class. The ``check_*`` methods only read the state
and raise; the ``apply_*`` methods only change it. No other code runs between a check and its change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct

import msgspec

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader, EndTxnMarker
from ottla.protocol.steps import next_turn
from ottla.protocol.transaction_states import TV2

DUPLICATE_WINDOW_BATCHES = 5
MAX_UNVERIFIED = 200
"""Maximum number of producers whose unverified batches a partition remembers, because clients choose producer ids."""


class BatchMetadata(msgspec.Struct, gc=False, frozen=True):
    """One of the last batches of a producer: the fields to recognise a retry and respond to it (Kafka's BatchMetadata)."""

    last_sequence: int
    offset_delta: int
    last_offset: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + 0x7FFFFFFF + 1


NO_BATCH = BatchMetadata(NO_SEQUENCE, 0, -1, -1)
_SEEN = Struct("<qi")
"""Format of two packed fields: time in ms of the producer's last batch or marker, coordinator epoch of its last marker."""
_BATCH = Struct("<iiqq")
_TIME = Struct("<q")
_FULL_BYTES = _SEEN.size + DUPLICATE_WINDOW_BATCHES * _BATCH.size
_UNSEEN = _SEEN.pack(-1, -1)


class ProducerEntry(msgspec.Struct, gc=False):
    """The state of one producer id (ProducerStateEntry). ``txn_first_offset`` is -1 outside a transaction.

    ``packed`` holds the other fields and the last five batches as bytes. As objects they would take three times the memory for a
    million producers.
    """

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    txn_first_offset: int = -1
    packed: bytes = _UNSEEN

    def forget_batches(self, last_timestamp_ms: int = -1, coordinator_epoch: int = -1) -> None:
        self.packed = _SEEN.pack(last_timestamp_ms, coordinator_epoch)

    def seen(self, last_timestamp_ms: int, coordinator_epoch: int) -> None:
        self.packed = _SEEN.pack(last_timestamp_ms, coordinator_epoch) + self.packed[_SEEN.size :]

    def add(self, last_sequence: int, offset_delta: int, last_offset: int, timestamp_ms: int, seen_ms: int) -> None:
        known = self.packed
        first = _SEEN.size if len(known) < _FULL_BYTES else _SEEN.size + _BATCH.size
        batch = _BATCH.pack(last_sequence, offset_delta, last_offset, timestamp_ms)
        self.packed = _TIME.pack(seen_ms) + known[_TIME.size : _SEEN.size] + known[first:] + batch

    @property
    def last_timestamp_ms(self) -> int:
        timestamp_ms: int = _SEEN.unpack_from(self.packed)[0]
        return timestamp_ms

    @property
    def coordinator_epoch(self) -> int:
        epoch: int = _SEEN.unpack_from(self.packed)[1]
        return epoch

    @property
    def batches(self) -> list[BatchMetadata]:
        """The producer's last five batches, oldest first."""
        return [BatchMetadata(*fields) for fields in _BATCH.iter_unpack(memoryview(self.packed)[_SEEN.size :])]

    @property
    def last_batch(self) -> BatchMetadata | None:
        if len(self.packed) == _SEEN.size:
            return None
        return BatchMetadata(*_BATCH.unpack_from(self.packed, len(self.packed) - _BATCH.size))

    @property
    def last_sequence(self) -> int:
        packed = self.packed
        if len(packed) == _SEEN.size:
            return NO_SEQUENCE
        sequence: int = _BATCH.unpack_from(packed, len(packed) - _BATCH.size)[0]
        return sequence

    @property
    def last_offset(self) -> int:
        batch = self.last_batch
        return -1 if batch is None else batch.last_offset


class CompletedTxn(msgspec.Struct, gc=False, frozen=True):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Unverified(msgspec.Struct, gc=False, frozen=True):
    """The epoch and lowest sequence of a producer's batches that are not verified and appended yet (VerificationStateEntry).

    ``implicit_add``: whether the producer's first noted batch, in any epoch, has transaction version 2.
    """

    epoch: int
    sequence: int
    since_ms: int
    implicit_add: bool


class ProducerState:
    """The state of all producers of one partition.

    ``open_txns`` maps the producer id of each open transaction to the transaction's first offset, in the order of first offsets.
    """

    __slots__ = ("_rounds", "_unverified", "_verifying", "entries", "open_txns")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        # The producer ids in the order in which expiry checks them. A separate list, because producers may be added during expiry.
        self._rounds: deque[int] = deque()
        self.open_txns: dict[int, int] = {}
        # Unverified batches by producer id, in the order of each producer's first unverified batch.
        self._unverified: dict[int, Unverified] = {}
        # The guards that `verifying` has returned, by producer id, oldest first.
        self._verifying: dict[int, object] = {}

    def replace(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace the whole state with the entries of a snapshot."""
        self.entries = {e.producer_id: e for e in entries}
        self._rounds = deque(self.entries)
        ongoing = sorted((e for e in self.entries.values() if e.txn_first_offset >= 0), key=lambda e: e.txn_first_offset)
        self.open_txns = {e.producer_id: e.txn_first_offset for e in ongoing}

    @property
    def has_any(self) -> bool:
        """Whether the partition has the state of any producer that may expire."""
        return bool(self.entries or self._unverified)

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
            self._rounds.append(producer_id)
        return entry

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction; None if no transaction is open."""
        for offset in self.open_txns.values():
            return offset
        return None

    # checking and applying data batches

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The stored batch that ``header`` repeats; None if the batch repeats none of the last five batches."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        if first == entry.last_sequence + 1:
            return None
        for batch in entry.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Raises INVALID_PRODUCER_EPOCH for a batch of a fenced producer, and for an epoch below -1."""
        entry = self.entries.get(header.producer_id)
        last_epoch = NO_PRODUCER_EPOCH if entry is None else entry.epoch
        if header.producer_epoch < last_epoch:
            raise KafkaError(
                Code.INVALID_PRODUCER_EPOCH,
                f"epoch {header.producer_epoch} of producer {header.producer_id} is older than its last epoch, {last_epoch}",
            )

    def check_data(self, header: BatchHeader, *, implicit_add: bool) -> None:
        """Raise `KafkaError` if a data batch may not be appended.

        The codes are INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, and INVALID_TXN_STATE for a batch outside a transaction.
        ``implicit_add``: the batch was sent with transaction version 2, whose producers always begin at sequence 0. As in Kafka, if
        the producer has unverified batches, the version of the first of them counts instead.
        """
        self.check_epoch(header)
        entry = self.entries.get(header.producer_id)
        epoch, sequence = header.producer_epoch, header.base_sequence
        refused = self._unverified.get(header.producer_id)
        if refused is not None and refused.epoch == epoch and sequence > refused.sequence:
            raise _out_of_order(header, refused.sequence)
        if entry is None or entry.epoch == NO_PRODUCER_EPOCH:
            begins_at_zero = implicit_add if refused is None else refused.implicit_add
            if sequence != 0 and begins_at_zero and header.is_transactional:
                raise _out_of_order(header, NO_SEQUENCE)
            return
        if epoch > entry.epoch:
            if sequence != 0:
                raise _out_of_order(header, entry.last_sequence)
        elif not _in_sequence(entry.last_sequence, sequence):
            raise _out_of_order(header, entry.last_sequence)
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            raise KafkaError(
                Code.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction, but sent a batch that is not transactional",
            )

    def note_unverified(self, header: BatchHeader, now_ms: int, *, implicit_add: bool) -> None:
        """Remember a batch before its verification. If the batch is not appended, no later batch is accepted until the producer
        sends it again (KAFKA-14359, VerificationStateEntry).
        """
        known = self._unverified.get(header.producer_id)
        if known is None or header.producer_epoch > known.epoch or header.base_sequence < known.sequence:
            first_added = implicit_add if known is None else known.implicit_add
            self._unverified[header.producer_id] = Unverified(header.producer_epoch, header.base_sequence, now_ms, first_added)
        if len(self._unverified) > MAX_UNVERIFIED:
            del self._unverified[next(iter(self._unverified))]

    def verifying(self, producer_id: int) -> object:
        """The guard of a producer while another broker verifies its transaction (VerificationGuard).

        A marker or a batch of the producer invalidates the guard. A batch may be appended after verification only if its guard is
        still valid.
        """
        guard = self._verifying.setdefault(producer_id, object())
        if len(self._verifying) > MAX_UNVERIFIED:
            del self._verifying[next(iter(self._verifying))]
        return guard

    def is_verifying(self, producer_id: int, guard: object) -> bool:
        """Whether the guard is valid: not removed because of `MAX_UNVERIFIED`, or by a marker or batch of the producer."""
        return self._verifying.get(producer_id) is guard

    def apply_data(self, header: BatchHeader, first_offset: int, last_offset: int, timestamp_ms: int, seen_ms: int) -> None:
        """Record an appended data batch. ``timestamp_ms`` is the batch's timestamp; the broker received the batch at ``seen_ms``.

        A producer expires by ``seen_ms`` (rule IDM-22, docs/rules.md). Kafka uses the batch's timestamp, and so forgets a producer
        that writes records with old timestamps.
        """
        producer_id = header.producer_id
        entry = self._entry(producer_id)
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.forget_batches(coordinator_epoch=entry.coordinator_epoch)
        entry.add(header.last_sequence, last_offset - first_offset, last_offset, timestamp_ms, seen_ms)
        if self._unverified:
            self._unverified.pop(producer_id, None)
        if self._verifying:
            self._verifying.pop(producer_id, None)
        if header.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = first_offset
            self.open_txns[producer_id] = first_offset

    # checking and applying transaction markers

    def check_marker(self, marker: EndTxnMarker, transaction_version: int) -> None:
        """Check producer epoch and coordinator epoch of a marker (ProducerAppendInfo.checkProducerEpoch, checkCoordinatorEpoch)."""
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        stale = marker.producer_epoch < entry.epoch
        if transaction_version >= TV2 and entry.txn_first_offset >= 0:
            # KIP-1228: a marker of transaction version 2 carries a bumped epoch. A marker with the producer's own epoch is valid
            # only as a repeat, when no transaction is open.
            stale = marker.producer_epoch <= entry.epoch
        if stale:
            raise KafkaError(
                Code.INVALID_PRODUCER_EPOCH,
                f"marker epoch {marker.producer_epoch} of producer {marker.producer_id} is older than its last epoch,"
                f" {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                Code.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} is older than the last one, {entry.coordinator_epoch}",
            )

    def completed_by(self, marker: EndTxnMarker, offset: int) -> CompletedTxn | None:
        """The transaction that a marker at ``offset`` would end; None if the producer has no open transaction in this partition."""
        first = self.open_txns.get(marker.producer_id)
        return None if first is None else CompletedTxn(marker.producer_id, first, offset, not marker.commit)

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset after ``completed`` has ended (ProducerStateManager.lastStableOffset)."""
        for producer_id, offset in self.open_txns.items():
            if producer_id != completed.producer_id:
                return offset
        return completed.last_offset + 1

    def apply_marker(self, marker: EndTxnMarker, timestamp_ms: int) -> None:
        entry = self._entry(marker.producer_id)
        if entry.epoch != marker.producer_epoch:
            entry.epoch = marker.producer_epoch
            entry.forget_batches()
        self._unverified.pop(marker.producer_id, None)
        self._verifying.pop(marker.producer_id, None)
        entry.txn_first_offset = -1
        entry.seen(timestamp_ms, marker.coordinator_epoch)
        self.open_txns.pop(marker.producer_id, None)

    # expiring producers and finding late transactions

    async def remove_expired(self, now_ms: int, expiration_ms: int, at_once: int) -> None:
        """Remove producers without open transaction that were idle for ``expiration_ms``. Each step checks ``at_once``
        producers."""
        limit_ms = now_ms - expiration_ms
        entries, rounds = self.entries, self._rounds
        left = len(rounds)
        while left > 0:
            for _ in range(min(at_once, left, len(rounds))):
                producer_id = rounds.popleft()
                entry = entries[producer_id]
                if entry.txn_first_offset < 0 and entry.last_timestamp_ms <= limit_ms:
                    del entries[producer_id]
                else:
                    rounds.append(producer_id)
            left -= at_once
            await next_turn()
        self._unverified = {p: u for p, u in self._unverified.items() if u.since_ms > limit_ms}

    def has_late_transaction(self, now_ms: int, limit_ms: int) -> bool:
        """Whether an open transaction has had no batch for longer than ``limit_ms`` (ProducerStateManager.hasLateTransaction)."""
        return any(now_ms - self.entries[p].last_timestamp_ms > limit_ms for p in self.open_txns)

    def drop_open_before(self, log_start_offset: int) -> None:
        """Let open transactions that began before the new log start begin at the log start (rule STO-24, docs/rules.md)."""
        for producer_id, first in list(self.open_txns.items()):
            if first < log_start_offset:
                self.open_txns[producer_id] = log_start_offset
                self.entries[producer_id].txn_first_offset = log_start_offset


def _in_sequence(last: int, following: int) -> bool:
    return following == last + 1 or (following == 0 and last == 0x7FFFFFFF)


def _out_of_order(header: BatchHeader, last_sequence: int) -> KafkaError:
    return KafkaError(
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} epoch {header.producer_epoch}: sequence {header.base_sequence} does not follow"
        f" {last_sequence}",
    )
