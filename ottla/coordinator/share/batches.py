"""What is persisted of the records in a share partition: runs of offsets with one state and one delivery count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

NO_OFFSET = -1
"""A start offset that nobody has set yet."""


class StateBatch(NamedTuple):
    """Records from ``first_offset`` to ``last_offset``, both included, with `RecordState` and delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(before: Iterable[StateBatch], after: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """All batches, sorted, without overlaps and nothing below the start offset (PersisterStateBatchCombiner).

    Where batches overlap the higher delivery count holds and, where these are the same, the higher state, whichever came first:
    a record only ever moves that way. Neighbours that say the same become one batch. A batch that ends before it begins says
    nothing: an admin client may have written it into the log.
    """
    pruned = [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batches in (before, after)
        for batch in batches
        if max(batch.first_offset, start_offset) <= batch.last_offset
    ]
    if all(one.last_offset < two.first_offset for one, two in pairwise(pruned)):
        return tuple(_coalesced(pruned))
    return tuple(_coalesced(_swept(pruned)))


def _swept(batches: list[StateBatch]) -> Iterator[StateBatch]:
    """One walk over the offsets at which a batch begins or ends, with the batches that are open there."""
    changes: dict[int, list[tuple[tuple[int, int], int]]] = {}
    for first_offset, last_offset, state, count in batches:
        changes.setdefault(first_offset, []).append(((count, state), 1))
        changes.setdefault(last_offset + 1, []).append(((count, state), -1))
    # Delivery count and state of the batches that cover the offset, and how many say the same. Few, so that max() is cheap.
    covering: dict[tuple[int, int], int] = {}
    began_at = NO_OFFSET
    for offset in sorted(changes):
        if covering:
            count, state = max(covering)
            yield StateBatch(began_at, offset - 1, state, count)
        for says, change in changes[offset]:
            covering[says] = covering.get(says, 0) + change
            if not covering[says]:
                del covering[says]
        began_at = offset


def _coalesced(batches: Iterable[StateBatch]) -> list[StateBatch]:
    coalesced: list[StateBatch] = []
    for batch in batches:
        last = coalesced[-1] if coalesced else None
        if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            coalesced[-1] = last._replace(last_offset=batch.last_offset)
        else:
            coalesced.append(batch)
    return coalesced
