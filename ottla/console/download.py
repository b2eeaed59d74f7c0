"""Downloads the records that a page's query selects, as JSON lines or CSV, in server-sent events that the browser joins to a file.

Each event has some lines of the file, so that the server never holds the whole file. The last event has the number of records, and
the limit that ended the download, if any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.client.records.documents import COLUMNS, Formatted, csv_line, csv_row, document, formatted
from ottla.client.records.record import ConsumedRecord
from ottla.console.decoding import INSPECTED_BYTES, decode
from ottla.console.messages import PROBLEMS_SHOWN, partitions_of, selection_of
from ottla.console.page_request import Asked, refusal
from ottla.console.shown_record import formats_of
from ottla.control.command import CommandRefused
from ottla.protocol.errors import KafkaError

DOWNLOAD_RECORDS: Final = 100_000
DOWNLOAD_BYTES: Final = 128 << 20
"""Size, in bytes, after which a download ends: the browser holds the file in memory until it is complete."""
DOWNLOAD_OFFSETS: Final = 2_000_000
"""Maximum number of offsets that a download searches, because few records may match."""
RECORDS_AT_ONCE: Final = 2_000
"""Maximum number of records in one event. A batch with more records is decoded again for each event."""
FORMATS: Final = ("jsonl", "csv")
DECODED: Final = ("json", "text", "hex")
"""Formats of `decoding` for which a download contains the record's bytes unchanged."""


def download(asked: Asked) -> Iterator[bytes]:
    """Yield the events of a download: ``part`` with lines of the file, then ``done``, or ``refused`` after an error."""
    try:
        yield from _events(asked)
    except (CommandRefused, ClientError, KafkaError) as error:
        refused = refusal(error) if isinstance(error, KafkaError) else error
        status = refused.status if isinstance(refused, CommandRefused) else 409
        yield _event("refused", {"status": status, "error": str(refused)})


def _events(asked: Asked) -> Iterator[bytes]:
    form = asked.query.get("format") or FORMATS[0]
    if form not in FORMATS:
        raise CommandRefused(400, f"format must be one of {', '.join(FORMATS)}")
    forms = formats_of(asked)
    selected = selection_of(asked, partitions_of(asked, asked.view.topic(asked.required("topic")).partitions))
    ranges = {index: bounds for index, bounds in selected.ranges.items() if bounds[0] < bounds[1]}
    problems: list[str] = []
    records = size = searched = 0
    limit = ""
    if form == "csv":
        yield _event("part", csv_line(COLUMNS))
    while ranges and not limit:
        asked.deadline.begin()
        search = selected.search(asked, ranges)
        with asked.deadline.alone():
            found = search.run(min(RECORDS_AT_ONCE, DOWNLOAD_RECORDS - records))
        part = "".join(_line(record, form, asked, *forms) for record in found)
        problems += search.problems[: PROBLEMS_SHOWN - len(problems)]
        records, size, searched = records + len(found), size + len(part.encode()), searched + search.searched
        yield _event("part", part)
        at = search.next_bounds
        ranges = {index: bounds for index, bounds in selected.continued(ranges, at).items() if index in at}
        limit = _limit(records, size, searched) if ranges else ""
    problems += selected.unfiltered[: PROBLEMS_SHOWN - len(problems)]
    yield _event("done", {"records": records, "limit": limit, "problems": problems})


def _limit(records: int, size: int, searched: int) -> str:
    """Return which limit a download has reached; an empty text for none."""
    if records >= DOWNLOAD_RECORDS:
        return f"{DOWNLOAD_RECORDS:,} records"
    if size >= DOWNLOAD_BYTES:
        return f"{DOWNLOAD_BYTES >> 20} MiB"
    return f"{DOWNLOAD_OFFSETS:,} offsets searched" if searched >= DOWNLOAD_OFFSETS else ""


def _line(record: ConsumedRecord, form: str, asked: Asked, as_key: str, as_value: str) -> str:
    key, value = _formatted(record.key, as_key, asked), _formatted(record.value, as_value, asked)
    if form == "csv":
        return csv_line(csv_row(record, key, value))
    found = document(record)
    for name, part in (("key", key), ("value", value)):
        # Decoded text replaces the record's bytes in the line, so the line also names the format.
        if record.control is None and part.format not in ("", "text", "base64"):
            found[name] = part.text
            found[f"{name}_format"] = part.format
    return json.dumps(found, ensure_ascii=False) + "\n"


def _formatted(data: bytes | None, form: str, asked: Asked) -> Formatted:
    """Return a key or value decoded as on the page if its format is structured, else its bytes."""
    if data is not None and 0 < len(data) <= INSPECTED_BYTES:
        found = decode(data, form, asked.registered)
        if found.is_json and found.kind not in DECODED:
            return Formatted(found.text, found.kind)
    return formatted(data)


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
