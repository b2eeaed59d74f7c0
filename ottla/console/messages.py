"""The page ``messages``: the records of a partition, as readers of each isolation level see them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from itertools import islice
from typing import Any, Final

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.errors import BatchTooLarge
from ottla.client.records.reading import ISOLATIONS, Isolation
from ottla.client.records.record import ConsumedRecord
from ottla.console.page_request import Asked
from ottla.console.topics import partition_of
from ottla.control.command import CommandRefused
from ottla.protocol.inflating import Allowance

MESSAGES_SHOWN: Final = 100
OFFSETS_SEARCHED: Final = 20_000
"""Maximum number of offsets that a page searches at once for `MESSAGES_SHOWN` records, because few records may be visible."""
BYTES_READ: Final = 32 << 20
"""Maximum size of the inflated batches of one page, in bytes. Without a limit, a small batch might inflate to 256 MiB each
time the page reads it."""
BYTES_SHOWN: Final = 1_000
"""Maximum number of bytes shown for a key or a value."""
HEADERS_SHOWN: Final = 20
"""Maximum number of headers shown for a record."""
HEADER_BYTES_SHOWN: Final = 200
"""Maximum number of characters shown of a header's name, and of bytes shown of a header's value."""


def messages(asked: Asked) -> dict[str, Any]:
    """Return the records of a partition from the query's offset ``start`` on, by default the newest.

    A client fetches the records, because the leader may be another broker, and so that batches are inflated in the page's thread.
    The records are read again only if this broker's log has changed.
    """
    topic, index = asked.required("topic"), partition_of(asked)
    isolation = asked.query.get("isolation") or "committed"
    if isolation not in ISOLATIONS:
        raise CommandRefused(400, f"isolation must be one of {', '.join(ISOLATIONS)}")
    listing = asked.view.topic(topic)
    if index >= listing.partitions:
        raise CommandRefused(404, f"topic {topic!r} has no partition {index}")
    (state,) = asked.view.log_states([(topic, index)])
    return asked.last_read.get(
        None if state is None else (listing, state), lambda: _read(asked, topic, index, isolation, listing.partitions)
    )


def _read(asked: Asked, topic: str, index: int, isolation: Isolation, partitions: int) -> dict[str, Any]:
    """Read the records of a page.

    ``next_offset`` is the start of the next page; None on the last page. ``stopped_at`` is the offset where the search ended
    without finding enough records for a page, else None. ``too_large`` names a batch that was omitted or that ended the page
    because of `BYTES_READ`.
    """
    client = asked.client()
    brokers = client.brokers
    first = list_offsets(brokers, topic, [index], EARLIEST)[index]
    stable = list_offsets(brokers, topic, [index], LATEST, committed=True)[index]
    end = list_offsets(brokers, topic, [index], LATEST)[index]
    last = end if isolation == "all" else stable
    start = min(max(asked.number("start", max(first, last - MESSAGES_SHOWN)), first), end)
    limit = start + OFFSETS_SEARCHED
    found = client.stream(
        topic,
        isolation,
        partitions=[index],
        start={index: start},
        end={index: limit},
        show_control=True,
        allowance=Allowance(BYTES_READ),
    )
    records: list[dict[str, Any]] = []
    too_large: BatchTooLarge | None = None
    with asked.deadline.alone():
        try:
            # `shown` shortens each record before the next is read, so that at most one batch of large values is in memory.
            records.extend(shown(record) for record in islice(found, MESSAGES_SHOWN))
        except BatchTooLarge as error:
            too_large = error
    is_full = len(records) == MESSAGES_SHOWN
    next_offset = records[-1]["offset"] + 1 if is_full else limit
    if too_large is not None:
        next_offset = too_large.next_offset if too_large.is_alone else max(start, too_large.first_offset)
    return {
        "topic": topic,
        "partition": index,
        "partitions": partitions,
        "isolation": isolation,
        "start": start,
        "limit": MESSAGES_SHOWN,
        "log_start_offset": first,
        "last_stable_offset": stable,
        "high_watermark": end,
        "records": records,
        "next_offset": next_offset if next_offset < last else None,
        "stopped_at": limit if not is_full and too_large is None and limit < last else None,
        "too_large": None if too_large is None else _said(too_large),
    }


def _said(error: BatchTooLarge) -> str:
    if error.is_alone:
        read = "ottla consume reads it"
        return f"{error}, more than a page reads, so its offsets to {error.next_offset - 1:,} are not shown; {read}"
    return f"the page ends before offset {error.first_offset:,}: its batches inflate to more than {BYTES_READ >> 20} MiB"


def shown(record: ConsumedRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _bytes(record.key, BYTES_SHOWN),
        "value": _bytes(record.value, BYTES_SHOWN),
        "headers": [
            {"name": name[:HEADER_BYTES_SHOWN], "value": _bytes(value, HEADER_BYTES_SHOWN)}
            for name, value in record.headers[:HEADERS_SHOWN]
        ],
        "more_headers": max(0, len(record.headers) - HEADERS_SHOWN),
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "is_transactional": record.transactional,
        "control": record.control,
    }


def _bytes(value: bytes | None, most_bytes: int) -> dict[str, Any] | None:
    """Convert bytes for display: as text if they are UTF-8, else in hexadecimal digits; None for null."""
    if value is None:
        return None
    first = value[:most_bytes]
    try:
        # An incremental decoder ignores an incomplete character at the end of shortened bytes.
        text, kind = getincrementaldecoder("utf-8")().decode(first, final=len(first) == len(value)), "text"
    except UnicodeDecodeError:
        text, kind = first.hex(" "), "hex"
    return {"kind": kind, "text": text, "size_bytes": len(value)}
