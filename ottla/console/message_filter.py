"""Builds the filter of the page ``messages`` from the fields of its form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from ottla.arguments import BadArgument
from ottla.client.errors import ClientError
from ottla.client.records.record import ConsumedRecord
from ottla.client.records.record_filter import (
    ANY,
    MISSING,
    Condition,
    RecordFilter,
    all_of,
    contains,
    has_header,
    number_is,
)
from ottla.console.decoding import INSPECTED_BYTES, decode
from ottla.console.page_request import Asked
from ottla.console.shown_record import formats_of
from ottla.control.command import CommandRefused

MAX_PROBLEMS: Final = 100
"""Maximum number of messages about records that a filter could not examine."""
MAX_CONDITIONS: Final = 10


def filter_of(asked: Asked, from_ms: int | None, to_ms: int | None, problems: list[str]) -> Callable[[ConsumedRecord], bool]:
    """Return the filter of a query. The fields ``text``, ``key``, ``value`` and ``header`` have texts that a record must contain,
    ``producer`` has a producer id, and ``filter`` has conditions as in ``ottla consume --filter``, one per line.

    Paths of conditions apply to keys and values as the page decodes them, for instance from MessagePack, or from Avro with a
    registry's schema. Records for which a JSONPath needs too much work are omitted, with a message in ``problems``. Raises
    `CommandRefused`.
    """
    conditions = [*_written(asked), *_texts(asked)]
    if asked.query.get("producer"):
        producer = asked.number("producer")
        conditions.append(number_is("producer", lambda found: found == producer))
    if from_ms is not None:
        conditions.append(number_is("time", lambda found: found >= from_ms))
    if to_ms is not None:
        conditions.append(number_is("time", lambda found: found < to_ms))
    matches = RecordFilter(tuple(conditions), _document(asked))
    if not matches.reads_documents:
        return matches

    def checked(record: ConsumedRecord) -> bool:
        # Check the deadline for each record: a batch may have half a million records, and a JSONPath may visit many nodes.
        asked.deadline.check()
        try:
            return matches(record)
        except ClientError as error:
            if len(problems) < MAX_PROBLEMS:
                problems.append(f"{error}; the record is not shown")
            return False

    return checked


def _written(asked: Asked) -> tuple[Condition, ...]:
    lines = [line.strip() for line in asked.query.get("filter", "").splitlines() if line.strip()]
    if len(lines) > MAX_CONDITIONS:
        raise CommandRefused(400, f"filter: at most {MAX_CONDITIONS} conditions are allowed")
    try:
        return all_of(lines)
    except BadArgument as error:
        raise CommandRefused(400, f"filter: {error}") from None


def _texts(asked: Asked) -> list[Condition]:
    fields = {"text": ANY, "key": "key", "value": "value"}
    conditions = [contains(field, asked.query[name]) for name, field in fields.items() if asked.query.get(name)]
    header, equals, text = asked.query.get("header", "").partition("=")
    if header:
        conditions.append(contains(f"header.{header}", text) if equals else has_header(header))
    return conditions


def _document(asked: Asked) -> Callable[[bytes], Any]:
    form = formats_of(asked)[1]

    def document(data: bytes) -> Any:
        if len(data) > INSPECTED_BYTES:
            return MISSING
        found = decode(data, form, asked.registered)
        try:
            return json.loads(found.text) if found.is_json else MISSING
        except (ValueError, RecursionError):
            return MISSING

    return document
