"""The persisted state of the records in a share partition: ranges of offsets with the same state and delivery count."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise, zip_longest
from operator import itemgetter
from typing import NamedTuple

NO_OFFSET = -1
"""An unset start offset."""


class StateBatch(NamedTuple):
    """Records from ``first_offset`` to ``last_offset`` (inclusive), with their `RecordState` and delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


_FIRST_OFFSET, _LAST_OFFSET = itemgetter(0), itemgetter(1)


def combine(before: Sequence[StateBatch], after: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge batches into sorted batches without overlaps and without offsets below the start (PersisterStateBatchCombiner of
    Kafka).

    ``before`` must be combined already. If batches overlap, the higher delivery count wins, and for equal counts the higher state.
    The order of writes does not matter, because a record's count and state only increase. Adjacent batches with the same state and
    count are joined. A batch that ends before it begins is ignored: an admin client may have written it to the log.
    """
    before = before[bisect_left(before, start_offset, key=_LAST_OFFSET) :]
    if before and before[0].first_offset < start_offset:
        before = (before[0]._replace(first_offset=start_offset), *before[1:])
    news = sorted(
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in after
        if max(batch.first_offset, start_offset) <= batch.last_offset
    )
    if not news:
        return tuple(before)
    # Most writes concern a few records. Batches that neither overlap nor adjoin new batches stay unchanged.
    begin = bisect_left(before, news[0].first_offset - 1, key=_LAST_OFFSET)
    end = bisect_right(before, max(map(_LAST_OFFSET, news)) + 1, lo=begin, key=_FIRST_OFFSET)
    return (*before[:begin], *_swept(sorted([*before[begin:end], *news])), *before[end:])


def are_in_order(batches: Sequence[StateBatch]) -> bool:
    """Whether the batches need no combining. If so, `combine` accepts them as ``before``."""
    return all(first <= last for first, last, _, _ in batches) and all(one[1] < two[0] for one, two in pairwise(batches))


def most_combined(before: int, after: int) -> int:
    """Return the maximum number of batches that `combine` makes of ``before`` and ``after`` batches. A batch inside another batch
    splits it into three."""
    return before + 2 * after


def _swept(batches: list[StateBatch]) -> list[StateBatch]:
    swept: list[StateBatch] = []
    # A heap of the batches that cover ``offset``: delivery count and state, both negated, and last offset. The batch on top wins.
    covering: list[tuple[int, int, int]] = []
    offset = 0
    for batch, following in zip_longest(batches, islice(batches, 1, None)):
        if not covering:
            if following is None or batch[1] < following[0]:
                _add(swept, batch)
                continue
            offset = batch[0]
        heappush(covering, (-batch[3], -batch[2], batch[1]))
        while covering and (following is None or offset < following[0]):
            count, state, last = covering[0]
            if last < offset:
                heappop(covering)
                continue
            until = last if following is None else min(last, following[0] - 1)
            _add(swept, StateBatch(offset, until, -state, -count))
            offset = until + 1
    return swept


def _add(swept: list[StateBatch], batch: StateBatch) -> None:
    if swept:
        first_offset, last_offset, state, count = swept[-1]
        if last_offset + 1 == batch[0] and state == batch[2] and count == batch[3]:
            swept[-1] = StateBatch(first_offset, batch[1], state, count)
            return
    swept.append(batch)
