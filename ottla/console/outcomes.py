"""Finds whether the transactions of shown records were committed or aborted, or are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from ottla.client.cluster import BrokerConnections
from ottla.client.records.reading import Isolation
from ottla.client.records.record import ConsumedRecord
from ottla.console.search import Search

Outcome = Literal["committed", "aborted", "open"]
_OF_ISOLATION: Final[Mapping[Isolation, Outcome]] = {"committed": "committed", "aborted": "aborted"}
"""The outcome of all transactional records that a read of an isolation level returns."""


def outcomes(
    brokers: BrokerConnections,
    topic: str,
    isolation: Isolation,
    found: Sequence[ConsumedRecord],
    stable: Mapping[int, int],
    check: Callable[[], None],
) -> dict[tuple[int, int], Outcome]:
    """Return the outcome of the transaction of each transactional record in ``found``, by partition and offset.

    ``stable`` has the last stable offset by partition, and ``check`` is that of `Search`. Records that were read as
    ``all`` are looked for among the aborted records; a record is missing in the result if that search reaches a limit.
    """
    transactional = [record for record in found if record.transactional and record.control is None]
    if isolation in _OF_ISOLATION:
        return {(record.partition, record.offset): _OF_ISOLATION[isolation] for record in transactional}
    decided = {(record.partition, record.offset) for record in transactional if record.offset < stable[record.partition]}
    known: dict[tuple[int, int], Outcome] = {
        (record.partition, record.offset): "open" for record in transactional if record.offset >= stable[record.partition]
    }
    if not decided:
        return known
    ranges: dict[int, tuple[int, int]] = {}
    for partition, offset in decided:
        low, high = ranges.get(partition, (offset, offset + 1))
        ranges[partition] = (min(low, offset), max(high, offset + 1))

    def is_decided(record: ConsumedRecord) -> bool:
        return (record.partition, record.offset) in decided

    search = Search(brokers, topic, "aborted", ranges, newest_first=False, matches=is_decided, check=check)
    aborted = {(record.partition, record.offset) for record in search.run(len(decided))}
    known.update(dict.fromkeys(aborted, "aborted"))
    if not search.is_spent and not search.problems:
        known.update(dict.fromkeys(decided - aborted, "committed"))
    return known
