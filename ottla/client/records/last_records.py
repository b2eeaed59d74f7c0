"""Reads the newest records of a topic, from its end backwards.

Offsets do not count records: markers, aborted records and compacted records leave gaps. So each partition is read backwards in
windows, each twice as large as the previous one, until there are enough matching records or the log start is reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import merge
from itertools import islice
from typing import Final

from ottla.client.admin.offsets import EARLIEST, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.client.records.reading import Isolation, Positions, stream
from ottla.client.records.record import ConsumedRecord

FIRST_WINDOW: Final = 100
"""Minimum size, in offsets, of the first window that is read at a partition's end."""


def last_records(
    brokers: BrokerConnections,
    topic: str,
    count: int,
    isolation: Isolation = "committed",
    *,
    partitions: Iterable[int],
    start: Positions,
    end: Positions,
    show_control: bool = False,
    matches: Callable[[ConsumedRecord], bool] = lambda record: True,
) -> list[ConsumedRecord]:
    """Return the ``count`` newest matching records of all ``partitions`` together, oldest first.

    Records are ordered by timestamp, but never reordered within a partition. ``start`` and ``end`` (exclusive) are offsets by
    partition. Raises the errors of `reading.stream`.
    """
    indexes = list(partitions)
    found: dict[int, deque[ConsumedRecord]] = {index: deque(maxlen=count) for index in indexes}
    firsts = list_offsets(brokers, topic, indexes, EARLIEST)
    limits = {index: max(firsts[index], start.get(index, 0)) for index in indexes}
    ends = {index: end[index] for index in indexes if end[index] > limits[index]}
    window = max(count, FIRST_WINDOW)
    while ends:
        starts = {index: max(limits[index], last - window) for index, last in ends.items()}
        older: dict[int, deque[ConsumedRecord]] = {index: deque(maxlen=count) for index in ends}
        for record in stream(brokers, topic, isolation, partitions=list(ends), start=starts, end=ends, show_control=show_control):
            if matches(record):
                older[record.partition].append(record)
        for index, records in older.items():
            found[index].extendleft(islice(reversed(records), count - len(found[index])))
        ends = {index: at for index, at in starts.items() if at > limits[index] and len(found[index]) < count}
        window *= 2
    return list(deque((record for _, record in merge(*map(_timed, found.values()), key=lambda pair: pair[0])), maxlen=count))


def _timed(records: Iterable[ConsumedRecord]) -> list[tuple[int, ConsumedRecord]]:
    """Pair each record with the newest timestamp up to that record. Merging by these timestamps keeps the order within each
    partition."""
    newest_ms, timed = -1, []
    for record in records:
        newest_ms = max(newest_ms, record.timestamp_ms)
        timed.append((newest_ms, record))
    return timed
