"""The filter of a page of records: texts in key, value and headers, the producer, and the time."""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.client.records.record import ConsumedRecord
from ottla.console.page_request import Asked


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that a record must all fulfil. Texts are compared as UTF-8 bytes, regardless of case if they are ASCII.

    ``text`` may occur in key, value or a header. ``header`` is ``NAME`` or ``NAME=TEXT``. Times are in ms.
    """

    text: bytes = b""
    key: bytes = b""
    value: bytes = b""
    header: bytes = b""
    producer_id: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        return self == RecordFilter()

    def matches(self, record: ConsumedRecord) -> bool:
        if self.producer_id is not None and record.producer_id != self.producer_id:
            return False
        if self.from_ms is not None and record.timestamp_ms < self.from_ms:
            return False
        if self.to_ms is not None and record.timestamp_ms >= self.to_ms:
            return False
        if not (self.text or self.key or self.value or self.header):
            return True
        if record.control is not None:
            return False
        return (
            _has(record.key, self.key)
            and _has(record.value, self.value)
            and (not self.header or any(self._is_header(*header) for header in record.headers))
            and (not self.text or self._has_text(record))
        )

    def _has_text(self, record: ConsumedRecord) -> bool:
        places = (record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value)))
        return any(_has(place, self.text) for place in places)

    def _is_header(self, name: str, value: bytes | None) -> bool:
        wanted, equals, text = self.header.partition(b"=")
        return name.encode().lower() == wanted and (not equals or _has(value, text))


def _has(data: bytes | None, text: bytes) -> bool:
    return not text or (data is not None and text in data.lower())


def filter_of(asked: Asked, times: dict[str, Any]) -> RecordFilter:
    """Return the filter of a query. ``times`` are the fields of `RecordFilter` for times. Raises `CommandRefused`."""
    texts: dict[str, Any] = {name: asked.query.get(name, "").encode().lower() for name in ("text", "key", "value", "header")}
    producer = asked.number("producer") if asked.query.get("producer") else None
    return RecordFilter(**texts, producer_id=producer, **times)
