"""A record as a JSON document and as a row of CSV, for ``ottla consume --json`` and the downloads of the console."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any, Final, NamedTuple

from ottla.client.records.record import ConsumedRecord

BASE64: Final = "base64"
TEXT: Final = "text"
COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "time",
    "key",
    "key_format",
    "value",
    "value_format",
    "headers",
    "producer_id",
    "producer_epoch",
    "transactional",
    "control",
)
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
"""First characters that make a spreadsheet treat a text as a formula, and the apostrophe."""
MAX_TIME_MS: Final = 253_402_300_800_000
"""The year 10,000 in ms since 1970, which Python's `datetime` cannot represent."""


class Formatted(NamedTuple):
    """A key or value as a text. ``format`` is ``text``, ``base64``, or the format from which the text was decoded to JSON, such as
    ``avro``; it is empty for null."""

    text: str
    format: str


def text_or_base64(value: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as JSON: text if they are valid UTF-8, else ``{"base64": ...}``."""
    if value is None:
        return None
    found = formatted(value)
    return found.text if found.format == TEXT else {BASE64: found.text}


def formatted(value: bytes | None) -> Formatted:
    if value is None:
        return Formatted("", "")
    try:
        return Formatted(value.decode(), TEXT)
    except UnicodeDecodeError:
        return Formatted(base64.b64encode(value).decode(), BASE64)


def document(record: ConsumedRecord) -> dict[str, Any]:
    is_marker = record.control is not None
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": None if is_marker else text_or_base64(record.key),
        "value": None if is_marker else text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "transactional": record.transactional,
        "control": record.control,
    }


def csv_row(record: ConsumedRecord, key: Formatted, value: Formatted) -> Sequence[Any]:
    """Return a record's cells in the order of `COLUMNS`. Texts that begin with a character of `FORMULA` get an apostrophe in front.
    `FORMULA` includes the apostrophe, so readers can remove the first apostrophe of any text."""
    is_marker = record.control is not None
    headers = [[name, text_or_base64(data)] for name, data in record.headers]
    return (
        _safe(record.topic),
        record.partition,
        record.offset,
        record.timestamp_ms,
        _time(record.timestamp_ms),
        "" if is_marker else _safe(key.text),
        "" if is_marker else key.format,
        "" if is_marker else _safe(value.text),
        "" if is_marker else value.format,
        json.dumps(headers, ensure_ascii=False) if headers else "",
        record.producer_id,
        record.producer_epoch,
        "true" if record.transactional else "false",
        record.control or "",
    )


def csv_line(cells: Sequence[Any]) -> str:
    """Encode a row of CSV (RFC 4180)."""
    stream = StringIO()
    csv.writer(stream).writerow(cells)
    return stream.getvalue()


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


def _time(timestamp_ms: int) -> str:
    """Format a timestamp; empty for an unset timestamp (-1) and for times after the year 9999."""
    if not 0 <= timestamp_ms < MAX_TIME_MS:
        return ""
    return datetime.fromtimestamp(timestamp_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
