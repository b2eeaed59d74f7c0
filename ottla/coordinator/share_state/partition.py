"""A share partition: the records of a topic partition in the view of one share group (SharePartition of Kafka).

Members acquire records under locks that expire, and acknowledge them. Acquisitions are not persisted: after a restart only
acknowledged, released and timed-out records are known. A command with changes to persist does not apply them; it returns a
`ShareChange`, which is applied once the share coordinator has persisted it. An expired lock is applied even if persisting fails,
because the lock has ended in any case, and at worst a delivery is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ottla.coordinator.share_state.acquisition import AcquiredRecords, AcquireRequest, Acquisition
from ottla.coordinator.share_state.batches import NO_OFFSET
from ottla.coordinator.share_state.changes import DELIVERED_TOO_OFTEN, REJECTED, DeadLetters, Draft, SharePartitionConfig
from ottla.coordinator.share_state.in_flight import UNSEEN, InFlight, InFlightBatch, RecordStatus
from ottla.coordinator.share_state.requests import StateRead, StateWrite
from ottla.coordinator.share_state.states import AcknowledgeType, RecordState
from ottla.protocol.errors import Code, KafkaError

_NOT_FOUND = "Batch record not found. The request batch offsets are not found in the cache."
_FIRST_BEYOND = "Batch record not found. The first offset in request is past acquired records."
_LAST_BEYOND = "Batch record not found. The last offset in request is past acquired records."
_NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
_NOT_OWNER = "Member is not the owner of batch record"
_NO_RENEWAL = "Renewing acquisition locks is not enabled for the group."


class Acknowledgement(msgspec.Struct, frozen=True):
    """A member's acknowledgement of the records from ``first_offset`` to ``last_offset``: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class ShareChange(msgspec.Struct, frozen=True):
    """The pending effect of a command. ``write`` must be persisted before the effect is applied, unless it is None."""

    write: StateWrite | None
    batches: list[InFlightBatch]
    """The in-flight batches after the change."""
    revision: int
    """The revision of the share partition that the change is based on."""
    dead_letters: Sequence[DeadLetters] = ()
    """Records whose dead letters must be written once the change is applied."""


class SharePartition:
    """Records below ``start_offset`` are finished. ``end_offset`` is the last offset in flight, or without records in flight the
    next offset to read."""

    def __init__(self, start_offset: int, state_epoch: int, leader_epoch: int, config: SharePartitionConfig) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.config = config
        self._in_flight = InFlight()
        # Whether a record in flight may be available, and a time before which no lock expires: both avoid searching all records.
        self._may_be_available = False
        self._next_deadline_ms: int | None = None
        # Counts changes, so that a `ShareChange` is not applied to a share partition that has changed since then.
        self._revision = 0

    @classmethod
    def load(cls, read: StateRead, first_offset: int, leader_epoch: int, config: SharePartitionConfig) -> SharePartition:
        """Load the persisted state. A group without a start offset begins at ``first_offset`` (``share.auto.offset.reset``).

        Records between persisted batches were never read, or acquired but not acknowledged; they are available. Raises
        UNKNOWN_SERVER_ERROR for a state whose batches are out of order.
        """
        start_offset = first_offset if read.start_offset == NO_OFFSET else read.start_offset
        partition = cls(start_offset, read.state_epoch, leader_epoch, config)
        next_offset = start_offset
        for first, last, state, count in read.state_batches:
            if first > last or first < next_offset:
                raise KafkaError(Code.UNKNOWN_SERVER_ERROR, f"Share state batches are out of order at offset {first}")
            if first > next_offset:
                partition._in_flight.put(InFlightBatch(next_offset, first - 1, UNSEEN))
            partition._in_flight.put(InFlightBatch(first, last, _persisted_status(state, count)))
            next_offset = last + 1
        if partition._in_flight:
            partition.end_offset = next_offset - 1
            partition._may_be_available = True
        partition._advance()
        return partition

    # reading the share partition's state

    @property
    def in_flight_count(self) -> int:
        """The number of records between start and end offset, in any state, which `max_record_locks` limits."""
        return self.end_offset - self.start_offset + 1 if self._in_flight else 0

    @property
    def delivery_complete_count(self) -> int:
        """The number of records in flight that need no further delivery. Records below the start offset do not count."""
        return self._complete_count(self._in_flight.batches)

    def next_fetch_offset(self) -> int:
        """Return the offset to read next: that of the first available record, else the first offset that is not in flight."""
        if not self._in_flight:
            return self.end_offset
        if self._may_be_available:
            for batch in self._in_flight.batches:
                for first, _, status in batch.runs(self.start_offset, batch.last_offset):
                    if status.state is RecordState.AVAILABLE:
                        return first
            self._may_be_available = False
        return self.end_offset + 1

    @property
    def next_deadline_ms(self) -> int | None:
        """A time in ms before which no lock expires, or None without locks."""
        return self._next_deadline_ms

    def can_acquire(self) -> bool:
        """Whether records may be acquired: available records in flight, or new records up to `max_record_locks`."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count < self.config.max_record_locks

    def dead_letters(self) -> list[DeadLetters]:
        """Return the archiving records, whose dead letters must still be written.

        The reason is not persisted, so it is inferred from the delivery count.
        """
        most = self.config.max_delivery_count
        return [
            DeadLetters(first, last, status.delivery_count, DELIVERED_TOO_OFTEN if status.delivery_count >= most else REJECTED)
            for batch in self._in_flight.batches
            for first, last, status in batch.runs(self.start_offset, batch.last_offset)
            if status.state is RecordState.ARCHIVING
        ]

    def statuses(self) -> list[tuple[int, int, RecordStatus]]:
        """Return the ranges of records in flight with their status, for tests and tools."""
        return [run for batch in self._in_flight.batches for run in batch.all_runs()]

    # acquiring records

    def acquire(self, request: AcquireRequest, now_ms: int) -> list[AcquiredRecords]:
        """Lock fetched records. Acquisitions are not persisted."""
        if not request.batches or request.batches[-1].last_offset < self.start_offset:
            return []
        last_offset = request.batches[-1].last_offset
        max_records = min(request.max_records, self.config.max_record_locks - self.in_flight_count)
        if max_records <= 0 and self._in_flight and request.fetch_offset <= self.end_offset:
            # The limit of locks is reached, but records in flight may be acquired again.
            last_offset = min(last_offset, self.end_offset)
            max_records = min(request.max_records, self.end_offset - request.fetch_offset + 1)
        if max_records <= 0:
            return []
        deadline_ms = now_ms + self.config.lock_duration_ms
        acquisition = Acquisition(
            request,
            self._in_flight,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            deadline_ms=deadline_ms,
            max_delivery_count=self.config.max_delivery_count,
        )
        acquired = acquisition.run(last_offset, max_records)
        self.end_offset = acquisition.end_offset
        self._revision += 1
        self._may_be_available = True
        self._next_deadline_ms = _earlier(self._next_deadline_ms, deadline_ms)
        self._advance()
        return acquired

    # deciding changes to persist

    def acknowledge(self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: int) -> ShareChange:
        """Process acknowledgements. Raises INVALID_RECORD_STATE for records that the member has not acquired, or INVALID_REQUEST
        for offsets beyond the end."""
        draft = Draft(self.config)
        deadline_ms = now_ms + self.config.lock_duration_ms
        for acknowledgement in acknowledgements:
            segments = _segments(acknowledgement)
            if acknowledgement.last_offset < self.start_offset:
                continue
            for at, (first, last, acknowledge_type) in enumerate(segments):
                if acknowledge_type is AcknowledgeType.RENEW and not self.config.is_renewal_enabled:
                    raise KafkaError(Code.INVALID_RECORD_STATE, _NO_RENEWAL)
                if at == 0:
                    self._check_in_flight(acknowledgement)
                # Read only the batches that overlap this range: a request may have as many ranges as there are batches.
                for batch in self._in_flight.overlapping(max(first, self.start_offset), last):
                    for run_first, run_last, status in draft.runs(batch, max(first, self.start_offset), last):
                        _check_owner(status, member_id)
                        if acknowledge_type is AcknowledgeType.RENEW:
                            draft.assign(batch, run_first, run_last, status.renewed(deadline_ms), is_persisted=False)
                        else:
                            draft.end(batch, run_first, run_last, acknowledge_type)
        return self._change(draft)

    def _check_in_flight(self, acknowledgement: Acknowledgement) -> None:
        first, last = acknowledgement.first_offset, acknowledgement.last_offset
        floor = self._in_flight.floor(first)
        if floor is None and first < self.start_offset <= last:
            floor = self._in_flight.floor(self.start_offset)
        if floor is None:
            raise KafkaError(Code.INVALID_RECORD_STATE, _NOT_FOUND)
        batches = self._in_flight.beginning_within(floor.first_offset, last)
        if batches[-1].last_offset < first:
            raise KafkaError(Code.INVALID_REQUEST, _FIRST_BEYOND)
        if batches[-1].last_offset < last:
            raise KafkaError(Code.INVALID_REQUEST, _LAST_BEYOND)

    def release(self, member_id: str) -> ShareChange:
        """Release all records that a member acquired, because it closed its session."""
        return self._ended_locks(lambda status: status.member_id == member_id)

    def time_out(self, now_ms: int) -> ShareChange:
        """Release the records whose locks have expired."""
        return self._ended_locks(lambda status: status.deadline_ms <= now_ms)

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether `time_out` may release records."""
        return self._next_deadline_ms is not None and self._next_deadline_ms <= now_ms

    def _ended_locks(self, is_over: Callable[[RecordStatus], bool]) -> ShareChange:
        draft = Draft(self.config)
        for batch in self._in_flight.batches:
            for first, last, status in batch.runs(self.start_offset, batch.last_offset):
                if status.state is RecordState.ACQUIRED and is_over(status):
                    draft.end(batch, first, last, AcknowledgeType.RELEASE)
        return self._change(draft)

    def dead_lettered(self, first_offset: int, last_offset: int) -> ShareChange:
        """Archive records whose dead letters are written, or cannot be written."""
        draft = Draft(self.config)
        first_offset = max(first_offset, self.start_offset)
        for batch in self._in_flight.overlapping(first_offset, last_offset):
            for first, last, status in batch.runs(first_offset, last_offset):
                if status.state is RecordState.ARCHIVING:
                    draft.assign(batch, first, last, status.ended(RecordState.ARCHIVED))
        return self._change(draft)

    def _change(self, draft: Draft) -> ShareChange:
        write = None
        if draft.written:
            complete_count = self._complete_count(draft.copies.get(batch.first_offset, batch) for batch in self._in_flight.batches)
            write = StateWrite(self.state_epoch, self.leader_epoch, self.start_offset, complete_count, tuple(draft.written))
        return ShareChange(write, list(draft.copies.values()), self._revision, draft.dead_letters)

    def apply(self, change: ShareChange) -> None:
        """Apply a change. The share partition must not have changed since the change was created."""
        assert change.revision == self._revision, f"a change of revision {change.revision} at {self._revision}"
        self._revision += 1
        for batch in change.batches:
            self._in_flight.put(batch)
        self._may_be_available = True
        self._advance()
        deadlines = [status.deadline_ms for _, _, status in self.statuses() if status.state is RecordState.ACQUIRED]
        self._next_deadline_ms = min(deadlines, default=None)

    def move_log_start(self, log_start_offset: int) -> None:
        """Drop the records below ``log_start_offset``, which retention or DeleteRecords removed."""
        if log_start_offset <= self.start_offset:
            return
        self._revision += 1
        self._in_flight.drop_below(log_start_offset)
        for batch in self._in_flight.batches[:1]:
            for first, last, status in batch.runs(batch.first_offset, log_start_offset - 1):
                if not status.is_terminal:
                    batch.assign(first, last, status.ended(RecordState.ARCHIVED))
        self.start_offset = log_start_offset
        if not self._in_flight:
            self.end_offset = log_start_offset
        self._advance()

    def _complete_count(self, batches: Iterable[InFlightBatch]) -> int:
        return sum(batch.finished_count(self.start_offset) for batch in batches)

    def _advance(self) -> None:
        start_offset = self.start_offset
        for batch in self._in_flight.batches:
            unfinished = batch.first_unfinished(start_offset)
            if unfinished is not None:
                start_offset = max(start_offset, unfinished)
                break
            start_offset = max(start_offset, batch.last_offset + 1)
        assert start_offset >= self.start_offset
        self.start_offset = start_offset
        had_any = bool(self._in_flight)
        self._in_flight.drop_below(start_offset)
        if had_any and not self._in_flight:
            self.end_offset = start_offset
        assert self.start_offset <= self.end_offset, f"start {self.start_offset} > end {self.end_offset}"


def _persisted_status(state: int, delivery_count: int) -> RecordStatus:
    """Return the status of a persisted record. ACQUIRED, which is never persisted, and unknown states count as available."""
    if state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED):
        return RecordStatus(RecordState(state), delivery_count)
    return RecordStatus(RecordState.AVAILABLE, delivery_count)


def _segments(acknowledgement: Acknowledgement) -> list[tuple[int, int, AcknowledgeType]]:
    first, last, types = acknowledgement.first_offset, acknowledgement.last_offset, acknowledgement.types
    try:
        known = [AcknowledgeType(number) for number in types]
    except ValueError:
        raise KafkaError(Code.INVALID_REQUEST, f"Invalid acknowledge type: {list(types)}") from None
    if first > last or len(known) not in (1, last - first + 1):
        raise KafkaError(Code.INVALID_REQUEST, f"{len(known)} acknowledge types do not match offsets {first} to {last}")
    if len(known) == 1:
        return [(first, last, known[0])]
    segments: list[tuple[int, int, AcknowledgeType]] = []
    for offset, acknowledge_type in enumerate(known, first):
        if segments and segments[-1][2] is acknowledge_type:
            segments[-1] = (segments[-1][0], offset, acknowledge_type)
        else:
            segments.append((offset, offset, acknowledge_type))
    return segments


def _check_owner(status: RecordStatus, member_id: str) -> None:
    if status.state is not RecordState.ACQUIRED:
        raise KafkaError(Code.INVALID_RECORD_STATE, _NOT_ACQUIRED)
    if status.member_id != member_id:
        raise KafkaError(Code.INVALID_RECORD_STATE, _NOT_OWNER)


def _earlier(one_ms: int | None, other_ms: int) -> int:
    return other_ms if one_ms is None else min(one_ms, other_ms)
