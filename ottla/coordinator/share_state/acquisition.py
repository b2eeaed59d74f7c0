"""Decides which fetched records a member acquires, and in which batches (SharePartition.acquire of Kafka)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ottla.coordinator.share_state.in_flight import UNSEEN, InFlight, InFlightBatch, RecordStatus
from ottla.coordinator.share_state.states import RecordState

MIN_THROTTLED_DELIVERIES = 2
"""Minimum number of deliveries after which a batch's records are acquired in smaller numbers."""


class FetchedBatch(NamedTuple):
    """A fetched record batch, with the fields that acquisition needs."""

    first_offset: int
    last_offset: int
    producer_id: int = -1
    is_transactional: bool = False
    is_abort_marker: bool = False


class AbortedTransaction(NamedTuple):
    """An aborted transaction and its first offset, as in the response to a Fetch with read_committed."""

    producer_id: int
    first_offset: int


class AcquiredRecords(NamedTuple):
    """Records that a member acquires. ``delivery_count`` includes this delivery."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcquireRequest(msgspec.Struct, frozen=True):
    """A member's request for records.

    ``batch_size`` is the requested number of records in a batch, which is acknowledged as a whole. With ``is_record_limit`` at most
    ``max_records`` are acquired. Otherwise whole batches are acquired, which is faster (ShareAcquireMode of Kafka).
    """

    member_id: str
    fetch_offset: int
    batches: Sequence[FetchedBatch]
    max_records: int
    batch_size: int
    is_record_limit: bool = False
    aborted: Sequence[AbortedTransaction] = ()


class Acquisition:
    """Carries out one `AcquireRequest`. It changes the batches in flight, and raises ``end_offset`` past new batches."""

    def __init__(
        self,
        request: AcquireRequest,
        in_flight: InFlight,
        *,
        start_offset: int,
        end_offset: int,
        deadline_ms: int,
        max_delivery_count: int,
    ) -> None:
        self._request = request
        self._in_flight = in_flight
        self._start_offset = start_offset
        self.end_offset = end_offset
        self._deadline_ms = deadline_ms
        self._max_delivery_count = max_delivery_count
        self._throttled_from = max(MIN_THROTTLED_DELIVERIES, -(-max_delivery_count // 2))
        self._acquired: list[AcquiredRecords] = []
        self._count = 0

    def run(self, last_offset: int, max_records: int) -> list[AcquiredRecords]:
        """Acquire records up to ``last_offset``, at most ``max_records``. Without ``is_record_limit`` the last batch is acquired
        whole."""
        read_from = self._request.batches[0].first_offset
        self._archive_compacted(read_from)
        first_offset = max(read_from, self._start_offset)
        overlapping = self._in_flight.overlapping(first_offset, last_offset)
        for batch in overlapping:
            if self._count >= max_records or self._acquire_again(batch, first_offset, last_offset, max_records):
                return self._without_aborted()
        if overlapping:
            first_offset = overlapping[-1].last_offset + 1
        if self._count < max_records and first_offset <= last_offset:
            self._acquire_new(first_offset, last_offset, max_records - self._count)
        return self._without_aborted()

    def _archive_compacted(self, read_from: int) -> None:
        """Archive available records that the log no longer has: the fetch requested them, but returned only later records."""
        for batch in self._in_flight.overlapping(self._request.fetch_offset, read_from - 1):
            for first, last, status in batch.runs(self._request.fetch_offset, read_from - 1):
                if status.state is RecordState.AVAILABLE:
                    batch.assign(first, last, status.ended(RecordState.ARCHIVED))

    # acquiring records already in flight

    def _acquire_again(self, batch: InFlightBatch, first_offset: int, last_offset: int, max_records: int) -> bool:
        """Acquire the available records of a batch. Returns True if this request may acquire no further records."""
        room = max_records - self._count
        if batch.common_status == UNSEEN:
            self._acquire_unseen(batch, max(batch.first_offset, first_offset), min(batch.last_offset, last_offset), room)
            return False
        available = [run for run in batch.runs(first_offset, last_offset) if run[2].state is RecordState.AVAILABLE]
        if not available:
            return False
        if max(status.delivery_count for _, _, status in available) >= self._throttled_from:
            # The available records were delivered often, perhaps because a consumer fails on one. So each delivery acquires fewer
            # of them.
            if not self._count:
                self._acquire_throttled(batch, available, room)
            return True
        for first, last, status in available:
            given_to = min(last, first + room - 1) if self._request.is_record_limit else last
            self._give(batch, first, given_to, status)
            room -= given_to - first + 1
            if self._request.is_record_limit and room <= 0:
                break
        return False

    def _acquire_throttled(self, batch: InFlightBatch, available: list[tuple[int, int, RecordStatus]], room: int) -> None:
        """Acquire half as many records as in the previous delivery. A record is acquired alone for its last delivery."""
        most: int | None = room if self._request.is_record_limit else None
        given = 0
        throttled = False
        for first, last, status in available:
            is_last_delivery = self._max_delivery_count > MIN_THROTTLED_DELIVERIES and (
                status.delivery_count == self._max_delivery_count - 1
            )
            if is_last_delivery:
                if not given:
                    self._give(batch, first, first, status)
                return
            if status.delivery_count >= self._throttled_from and not throttled:
                throttled = True
                piece = max(1, batch.count >> (status.delivery_count - self._throttled_from + 1))
                if given < piece:
                    # As in Kafka, the limit ``piece`` does not apply if as many records are already acquired.
                    most = piece if most is None else min(most, piece)
            given_to = last if most is None else min(last, first + most - given - 1)
            self._give(batch, first, given_to, status)
            given += given_to - first + 1
            if most is not None and given >= most:
                return

    def _give(self, batch: InFlightBatch, first: int, last: int, status: RecordStatus) -> None:
        acquired = status.acquired(self._request.member_id, self._deadline_ms)
        batch.assign(first, last, acquired)
        self._count += last - first + 1
        before = self._acquired[-1] if self._acquired else None
        joins = before is not None and before.first_offset >= batch.first_offset and before.last_offset + 1 == first
        if before is not None and joins and before.delivery_count == acquired.delivery_count:
            self._acquired[-1] = before._replace(last_offset=last)
        else:
            self._acquired.append(AcquiredRecords(first, last, acquired.delivery_count))

    # acquiring records for the first time

    def _acquire_unseen(self, batch: InFlightBatch, first_offset: int, last_offset: int, room: int) -> None:
        """Acquire records of a batch whose records were never acquired. New batches replace it, also for its other records."""
        self._in_flight.remove(batch)
        acquired_up_to = self._acquire_new(first_offset, last_offset, room)
        if batch.first_offset < first_offset:
            self._in_flight.put(InFlightBatch(batch.first_offset, first_offset - 1, UNSEEN))
        if acquired_up_to < batch.last_offset:
            self._in_flight.put(InFlightBatch(acquired_up_to + 1, batch.last_offset, UNSEEN))

    def _acquire_new(self, first_offset: int, last_offset: int, room: int) -> int:
        """Acquire new records, in batches of about the requested size that end where batches of the log end. Returns their
        last offset."""
        if last_offset - first_offset + 1 > room:
            last_offset = min(last_offset, _batch_end(self._request.batches, first_offset + room - 1))
        first = RecordStatus(RecordState.ACQUIRED, 1, self._request.member_id, self._deadline_ms)
        for begin, end in self._pieces(first_offset, last_offset):
            batch = InFlightBatch(begin, end, first)
            given_to = end
            if self._request.is_record_limit and batch.count > room:
                given_to = begin + room - 1
                batch.assign(given_to + 1, end, UNSEEN)
            self._in_flight.put(batch)
            self._acquired.append(AcquiredRecords(begin, given_to, 1))
            self._count += given_to - begin + 1
        self.end_offset = max(self.end_offset, last_offset)
        return last_offset

    def _pieces(self, first_offset: int, last_offset: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last offset of each new batch. A requested size of 0 or less counts as 1, so that no batch is
        empty."""
        size = max(self._request.batch_size, 1)
        if not self._request.is_record_limit and last_offset - first_offset + 1 > size:
            for batch in self._request.batches:
                if first_offset + size <= batch.first_offset <= last_offset:
                    yield first_offset, batch.first_offset - 1
                    first_offset = batch.first_offset
        yield first_offset, last_offset

    # leaving out records of aborted transactions

    def _without_aborted(self) -> list[AcquiredRecords]:
        """Remove the records of aborted transactions, which no member may get, and archive them."""
        if not self._request.aborted:
            return self._acquired
        kept = self._acquired
        for aborted in aborted_batches(self._request.batches, self._request.aborted):
            for batch in self._in_flight.overlapping(aborted.first_offset, aborted.last_offset):
                for first, last, status in batch.runs(aborted.first_offset, aborted.last_offset):
                    if status.state is RecordState.ACQUIRED:
                        batch.assign(first, last, status.ended(RecordState.ARCHIVED))
            kept = [piece for acquired in kept for piece in _outside(acquired, aborted)]
        return kept


def aborted_batches(batches: Iterable[FetchedBatch], aborted: Collection[AbortedTransaction]) -> list[FetchedBatch]:
    """Return the data batches of aborted transactions, using the same algorithm as consumers."""
    ahead = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    open_producers: set[int] = set()
    belong = []
    for batch in batches:
        while ahead and ahead[-1].first_offset <= batch.last_offset:
            open_producers.add(ahead.pop().producer_id)
        if batch.is_abort_marker:
            open_producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_producers:
            belong.append(batch)
    return belong


def _outside(acquired: AcquiredRecords, aborted: FetchedBatch) -> Iterator[AcquiredRecords]:
    if acquired.last_offset < aborted.first_offset or aborted.last_offset < acquired.first_offset:
        yield acquired
        return
    if acquired.first_offset < aborted.first_offset:
        yield acquired._replace(last_offset=aborted.first_offset - 1)
    if aborted.last_offset < acquired.last_offset:
        yield acquired._replace(first_offset=aborted.last_offset + 1)


def _batch_end(batches: Iterable[FetchedBatch], offset: int) -> int:
    return next((batch.last_offset for batch in batches if batch.first_offset <= offset <= batch.last_offset), offset)
