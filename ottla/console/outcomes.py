"""Finds whether the transactions of shown records were committed or aborted, or are open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from ottla.client.cluster import BrokerConnections
from ottla.client.records.reading import Isolation
from ottla.client.records.record import ConsumedRecord
from ottla.console.search import Search

Outcome = Literal["committed", "aborted", "open"]
_OF_ISOLATION: Final[Mapping[Isolation, Outcome]] = {"committed": "committed", "aborted": "aborted"}
"""The outcome of all transactional records that a read of an isolation level returns."""
_OF_MARKER: Final[Mapping[str, Outcome]] = {"COMMIT": "committed", "ABORT": "aborted"}
MARKERS: Final = 1_000
"""Maximum number of markers above the last stable offsets that are read for one page."""


def outcomes(
    brokers: BrokerConnections,
    topic: str,
    isolation: Isolation,
    found: Sequence[ConsumedRecord],
    stable: Mapping[int, int],
    end: Mapping[int, int],
    check: Callable[[], None],
) -> dict[tuple[int, int], Outcome]:
    """Return the outcome of the transaction of each transactional record in ``found``, by partition and offset.

    ``stable`` has the last stable offset and ``end`` the high watermark by partition. ``check`` raises an error if the page must
    stop. If the search for aborted records or markers reaches a limit, outcomes are missing in the result.
    """
    transactional = [record for record in found if record.transactional and record.control is None]
    if isolation in _OF_ISOLATION:
        return {(record.partition, record.offset): _OF_ISOLATION[isolation] for record in transactional}
    below = [record for record in transactional if record.offset < stable[record.partition]]
    above = [record for record in transactional if record.offset >= stable[record.partition]]
    # The last stable offset is the first offset of an open transaction.
    first = {(record.partition, record.offset) for record in above if record.offset == stable[record.partition]}
    known: dict[tuple[int, int], Outcome] = dict.fromkeys(first, "open")
    return known | _below(brokers, topic, below, check) | _above(brokers, topic, above, end, check)


def _below(
    brokers: BrokerConnections, topic: str, records: Iterable[ConsumedRecord], check: Callable[[], None]
) -> dict[tuple[int, int], Outcome]:
    """Look for the records, which are below the last stable offset, among the aborted records."""
    wanted = {(record.partition, record.offset) for record in records}
    if not wanted:
        return {}

    def is_wanted(record: ConsumedRecord) -> bool:
        return (record.partition, record.offset) in wanted

    search = Search(brokers, topic, "aborted", _ranges(wanted), newest_first=False, matches=is_wanted, check=check)
    known: dict[tuple[int, int], Outcome] = {(record.partition, record.offset): "aborted" for record in search.run(len(wanted))}
    if not search.is_spent and not search.problems:
        known.update(dict.fromkeys(wanted - known.keys(), "committed"))
    return known


def _above(
    brokers: BrokerConnections,
    topic: str,
    records: Sequence[ConsumedRecord],
    end: Mapping[int, int],
    check: Callable[[], None],
) -> dict[tuple[int, int], Outcome]:
    """Look for the markers of the records. They are above the last stable offset, which another transaction may hold back."""
    if not records:
        return {}
    shown = _ranges((record.partition, record.offset) for record in records)
    search = Search(
        brokers,
        topic,
        "all",
        {partition: (low, end[partition]) for partition, (low, _) in shown.items()},
        newest_first=False,
        matches=lambda record: record.control is not None,
        check=check,
        reads=lambda header: header.is_control,
    )
    markers = search.run(MARKERS)
    is_complete = len(markers) < MARKERS and not search.is_spent and not search.problems
    known: dict[tuple[int, int], Outcome] = {}
    for record in records:
        later = [
            marker
            for marker in markers
            if (marker.partition, marker.producer_id) == (record.partition, record.producer_id) and marker.offset > record.offset
        ]
        first = min(later, key=lambda marker: marker.offset, default=None)
        outcome = _OF_MARKER.get(first.control or "") if first is not None else None
        if outcome is not None:
            known[record.partition, record.offset] = outcome
        elif first is None and is_complete:
            known[record.partition, record.offset] = "open"
    return known


def _ranges(places: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return for each partition the first offset in ``places``, and the offset after the last."""
    ranges: dict[int, tuple[int, int]] = {}
    for partition, offset in places:
        low, high = ranges.get(partition, (offset, offset + 1))
        ranges[partition] = (min(low, offset), max(high, offset + 1))
    return ranges
