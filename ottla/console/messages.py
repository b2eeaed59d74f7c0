"""The page ``messages``: the records of a topic's partitions, as readers of each isolation level see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.admin.places import time_ms
from ottla.client.records.reading import ISOLATIONS, Isolation
from ottla.console.message_filter import filter_of
from ottla.console.outcomes import outcomes
from ottla.console.page_request import MAX_DIGITS, Asked
from ottla.console.search import Matches, Search
from ottla.console.shown_record import formats_of, shown
from ottla.control.command import CommandRefused
from ottla.protocol.topic_partition import MAX_PARTITION

MESSAGES_SHOWN: Final = 100
PARTITIONS_READ: Final = 1_000
"""Maximum number of partitions that a page reads. The link to the next page has a position for each partition."""
ORDERS: Final = ("newest", "oldest")
PROBLEMS_SHOWN: Final = 10


def messages(asked: Asked) -> dict[str, Any]:
    """Return the records of a topic that the query selects, by default the newest of all partitions.

    Records are fetched with a Kafka client, because the leader may be another broker, and so that the page's thread inflates
    batches. Records of unchanged logs are not read again.
    """
    topic = asked.required("topic")
    _isolation_and_order(asked)
    formats_of(asked)
    listing = asked.view.topic(topic)
    indexes = partitions_of(asked, listing.partitions)
    states = asked.view.log_states([(topic, index) for index in indexes])
    return asked.last_read.get(None if None in states else (listing, *states), lambda: _read(asked, indexes, listing.partitions))


def partitions_of(asked: Asked, count: int) -> list[int]:
    """Return the partitions in the query, such as ``0,2-5``; without the parameter the first `PARTITIONS_READ` partitions. Raises
    `CommandRefused`."""
    text = asked.query.get("partition", "").replace(" ", "")
    if not text:
        return list(range(min(count, PARTITIONS_READ)))
    indexes: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        bounds = [first, last if dash else first]
        if not all(one.isascii() and one.isdigit() and len(one) <= len(str(MAX_PARTITION)) for one in bounds):
            raise CommandRefused(400, f"partition {part[:20]!r} is not a number or a range such as 2-5")
        low, high = int(bounds[0]), int(bounds[1])
        if high >= count:
            raise CommandRefused(404, f"topic {asked.required('topic')!r} has no partition {high}")
        indexes.update(range(low, high + 1))
        if len(indexes) > PARTITIONS_READ:
            raise CommandRefused(400, f"a page reads at most {PARTITIONS_READ:,} partitions; name fewer")
    return sorted(indexes)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a query selects. By partition, ``first`` has the log start offset, ``stable`` the last stable offset,
    ``end`` the high watermark, and ``ranges`` the first selected offset and the offset after the last."""

    topic: str
    isolation: Isolation
    is_newest_first: bool
    first: dict[int, int]
    stable: dict[int, int]
    end: dict[int, int]
    ranges: dict[int, tuple[int, int]]
    matches: Matches
    unfiltered: list[str]
    """Messages about records that were omitted because the filter needs too much work for them."""

    def search(self, asked: Asked, ranges: dict[int, tuple[int, int]]) -> Search:
        return Search(
            asked.client().brokers,
            self.topic,
            self.isolation,
            ranges,
            newest_first=self.is_newest_first,
            matches=self.matches,
            check=asked.deadline.check,
        )

    def continued(self, ranges: dict[int, tuple[int, int]], at: dict[int, int]) -> dict[int, tuple[int, int]]:
        """Return the part of ``ranges`` that a page has not read. ``at`` has the position where the page ended by partition,
        without the partitions that were read completely."""
        if self.is_newest_first:
            return {index: (low, min(high, at.get(index, low))) for index, (low, high) in ranges.items()}
        return {index: (max(low, at.get(index, high)), high) for index, (low, high) in ranges.items()}


def selection_of(asked: Asked, indexes: Sequence[int]) -> Selection:
    """Look up the offsets that a query selects. Raises `CommandRefused` and `ClientError`."""
    topic = asked.required("topic")
    isolation, order = _isolation_and_order(asked)
    brokers = asked.client().brokers
    first = list_offsets(brokers, topic, indexes, EARLIEST)
    stable = list_offsets(brokers, topic, indexes, LATEST, committed=True)
    end = list_offsets(brokers, topic, indexes, LATEST)
    last = end if isolation == "all" else stable
    low, from_ms = _place(asked, "from", topic, indexes, first)
    high, to_ms = _place(asked, "to", topic, indexes, last)
    unfiltered: list[str] = []
    return Selection(
        topic=topic,
        isolation=isolation,
        is_newest_first=order == "newest",
        first=first,
        stable=stable,
        end=end,
        ranges={index: (max(first[index], low[index]), min(last[index], high[index])) for index in indexes},
        matches=filter_of(asked, from_ms, to_ms, unfiltered),
        unfiltered=unfiltered,
    )


def _isolation_and_order(asked: Asked) -> tuple[Isolation, str]:
    isolation = asked.query.get("isolation") or "committed"
    order = asked.query.get("order") or "newest"
    if isolation not in ISOLATIONS:
        raise CommandRefused(400, f"isolation must be one of {', '.join(ISOLATIONS)}")
    if order not in ORDERS:
        raise CommandRefused(400, f"order must be one of {', '.join(ORDERS)}")
    return isolation, order


def _read(asked: Asked, indexes: Sequence[int], count: int) -> dict[str, Any]:
    selected = selection_of(asked, indexes)
    first, stable, end = selected.first, selected.stable, selected.end
    cursor = _cursor(asked)
    search = selected.search(asked, selected.ranges if cursor is None else selected.continued(selected.ranges, cursor))
    with asked.deadline.alone():
        found = search.run(MESSAGES_SHOWN)
        found_outcomes = outcomes(
            asked.client().brokers, selected.topic, selected.isolation, found, stable, end, asked.deadline.check
        )
    forms = formats_of(asked)
    following = ",".join(f"{index}:{at}" for index, at in search.next_bounds.items())
    return {
        "topic": selected.topic,
        "partitions": count,
        "read": len(indexes),
        "isolation": selected.isolation,
        "order": "newest" if selected.is_newest_first else "oldest",
        "log_start_offset": first[indexes[0]] if len(indexes) == 1 else None,
        "last_stable_offset": stable[indexes[0]] if len(indexes) == 1 else None,
        "high_watermark": end[indexes[0]] if len(indexes) == 1 else None,
        "offsets": sum(end[index] - first[index] for index in indexes),
        "waiting": sum(end[index] - stable[index] for index in indexes),
        "records": [
            {
                **shown(record, *forms, registered=asked.registered),
                "outcome": found_outcomes.get((record.partition, record.offset)),
            }
            for record in found
        ],
        "next": following or None,
        "searched": search.searched,
        "is_partial": search.is_spent,
        "problems": [*search.problems, *selected.unfiltered][:PROBLEMS_SHOWN],
    }


def _place(
    asked: Asked, name: str, topic: str, indexes: Sequence[int], default: dict[int, int]
) -> tuple[dict[int, int], int | None]:
    """Return the offset in each partition that the query's parameter ``name`` selects, and the time in ms if the parameter is a
    time. ``-N`` selects the last N offsets of each partition. Raises `CommandRefused`."""
    text = asked.query.get(name, "").strip()
    if not text:
        return default, None
    brokers = asked.client().brokers
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS:
        if digits == text:
            return dict.fromkeys(indexes, int(digits)), None
        ends = list_offsets(brokers, topic, indexes, LATEST)
        return {index: max(0, ends[index] - int(digits)) for index in indexes}, None
    ms = time_ms(text)
    if ms is None:
        example = "an offset, -N for the last N offsets, or a time such as 2026-11-23T17:00:00Z"
        raise CommandRefused(400, f"{name}: {text[:40]!r} is not {example}")
    if ms < 0:
        return default, ms
    return list_offsets(brokers, topic, indexes, ms), ms


def _cursor(asked: Asked) -> dict[int, int] | None:
    """Return the position in each partition where a page begins, from the link of the previous page; None on the first page. Raises
    `CommandRefused`."""
    text = asked.query.get("at", "")
    if not text:
        return None
    try:
        pairs = [part.partition(":") for part in text.split(",")]
        return {int(index[:MAX_DIGITS]): int(at[:MAX_DIGITS]) for index, _, at in pairs}
    except ValueError:
        raise CommandRefused(400, f"at: {text[:40]!r} is not a position such as 0:100,1:200") from None
