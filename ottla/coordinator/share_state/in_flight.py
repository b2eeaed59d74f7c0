"""The records of a share partition that are in flight: their states, delivery counts and members.

Records are kept in the batches in which they were first acquired (InFlightBatch of Kafka). Each batch is a list of runs: adjacent
records with the same status. Offsets without a record, as compaction leaves them, count as records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import msgspec

from ottla.coordinator.share_state.states import TERMINAL, RecordState, check_transition

NO_MEMBER = ""
NO_DEADLINE = -1


class RecordStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of one or more records. Acquired records have a member, and the time in ms when their lock expires."""

    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    deadline_ms: int = NO_DEADLINE

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    def acquired(self, member_id: str, deadline_ms: int) -> RecordStatus:
        check_transition(self.state, RecordState.ACQUIRED)
        return RecordStatus(RecordState.ACQUIRED, self.delivery_count + 1, member_id, deadline_ms)

    def renewed(self, deadline_ms: int) -> RecordStatus:
        assert self.state is RecordState.ACQUIRED, f"a lock on a record that is {self.state.name}"
        return RecordStatus(self.state, self.delivery_count, self.member_id, deadline_ms)

    def ended(self, state: RecordState) -> RecordStatus:
        """Return the status after the lock has ended, or after the record was discarded."""
        check_transition(self.state, state)
        return RecordStatus(state, self.delivery_count)


UNSEEN = RecordStatus(RecordState.AVAILABLE, 0)
"""The status of records that were never acquired."""

Run = tuple[int, int, RecordStatus]
"""First and last offset of adjacent records, and their common status."""


class InFlightBatch:
    """Records from ``first_offset`` to ``last_offset`` (inclusive).

    Adjacent records with the same status share one entry, because a persisted state may span any number of records.
    """

    __slots__ = ("_begins", "_statuses", "first_offset", "last_offset")

    def __init__(self, first_offset: int, last_offset: int, status: RecordStatus) -> None:
        assert first_offset <= last_offset, f"a batch from {first_offset} to {last_offset}"
        self.first_offset = first_offset
        self.last_offset = last_offset
        # The first offset and the status of each range of records with the same status.
        self._begins = [first_offset]
        self._statuses = [status]

    def copy(self) -> InFlightBatch:
        batch = InFlightBatch(self.first_offset, self.last_offset, UNSEEN)
        batch._begins, batch._statuses = self._begins.copy(), self._statuses.copy()
        return batch

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def common_status(self) -> RecordStatus | None:
        """The status that all records have, or None if statuses differ."""
        return self._statuses[0] if len(self._statuses) == 1 else None

    def assign(self, first_offset: int, last_offset: int, status: RecordStatus) -> None:
        assert self.first_offset <= first_offset <= last_offset <= self.last_offset
        first_at, last_at = bisect_right(self._begins, first_offset) - 1, bisect_right(self._begins, last_offset) - 1
        # Merge the range of offsets with adjacent ranges that have the same status.
        start, stop = max(first_at - 1, 0), min(last_at + 2, len(self._begins))
        pieces = [(self._begins[at], self._statuses[at]) for at in range(start, first_at)]
        if self._begins[first_at] < first_offset:
            pieces.append((self._begins[first_at], self._statuses[first_at]))
        pieces.append((first_offset, status))
        if last_offset < self._last_of(last_at):
            pieces.append((last_offset + 1, self._statuses[last_at]))
        pieces += [(self._begins[at], self._statuses[at]) for at in range(last_at + 1, stop)]
        runs = [next(same) for _, same in groupby(pieces, key=itemgetter(1))]
        self._begins[start:stop] = [begin for begin, _ in runs]
        self._statuses[start:stop] = [run_status for _, run_status in runs]

    def _last_of(self, at: int) -> int:
        return self._begins[at + 1] - 1 if at + 1 < len(self._begins) else self.last_offset

    def runs(self, first_offset: int, last_offset: int) -> Iterator[Run]:
        """Yield the ranges of records with the same status between two offsets, which may be outside the batch.

        The batch may be changed during the iteration.
        """
        first_offset, last_offset = max(first_offset, self.first_offset), min(last_offset, self.last_offset)
        if first_offset > last_offset:
            return
        start, stop = bisect_right(self._begins, first_offset) - 1, bisect_right(self._begins, last_offset)
        begins, statuses = self._begins[start + 1 : stop], self._statuses[start:stop]
        for following, status in zip([*begins, last_offset + 1], statuses, strict=True):
            yield first_offset, following - 1, status
            first_offset = following

    def all_runs(self) -> Iterator[Run]:
        return self.runs(self.first_offset, self.last_offset)

    def first_unfinished(self, from_offset: int) -> int | None:
        """Return the first offset from ``from_offset`` on that must still be delivered or acknowledged, or None."""
        return next((first for first, _, status in self.runs(from_offset, self.last_offset) if not status.is_terminal), None)

    def finished_count(self, from_offset: int) -> int:
        return sum(last - first + 1 for first, last, status in self.runs(from_offset, self.last_offset) if status.is_terminal)


class InFlight:
    """All in-flight batches by first offset. They never overlap."""

    __slots__ = ("_firsts", "batches")

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []
        self._firsts: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    def put(self, batch: InFlightBatch) -> None:
        """Add a batch, or replace the batch with the same first offset."""
        at = bisect_left(self._firsts, batch.first_offset)
        if at < len(self._firsts) and self._firsts[at] == batch.first_offset:
            self.batches[at] = batch
        else:
            self._firsts.insert(at, batch.first_offset)
            self.batches.insert(at, batch)
        assert at == 0 or self.batches[at - 1].last_offset < batch.first_offset, "in-flight batches overlap"
        assert at + 1 == len(self.batches) or batch.last_offset < self._firsts[at + 1], "in-flight batches overlap"

    def remove(self, batch: InFlightBatch) -> None:
        at = bisect_left(self._firsts, batch.first_offset)
        assert self.batches[at] is batch
        del self.batches[at], self._firsts[at]

    def drop_below(self, offset: int) -> None:
        """Drop the batches that end below ``offset``."""
        count = next((at for at, batch in enumerate(self.batches) if batch.last_offset >= offset), len(self.batches))
        del self.batches[:count], self._firsts[:count]

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before ``offset`` (it may also end before ``offset``), or None."""
        at = bisect_right(self._firsts, offset)
        return self.batches[at - 1] if at else None

    def beginning_within(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        return self.batches[bisect_left(self._firsts, first_offset) : bisect_right(self._firsts, last_offset)]

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        floor = self.floor(first_offset)
        begin = floor.first_offset if floor is not None and floor.last_offset >= first_offset else first_offset
        return self.beginning_within(begin, last_offset)
