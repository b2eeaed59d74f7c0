"""Converts the values of tests to the bytes of records: bytes are unchanged, text is UTF-8, None is a tombstone, all else is JSON.

`Record` is a value with a key, headers, a partition or a timestamp of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ottla.client.records.record import NewRecord

T = TypeVar("T")

Serialized = bytes | str | None
"""A result of a serializer. Text is encoded as UTF-8."""
RecordHeaders = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
_SHOWN_CHARACTERS: Final = 100
"""Maximum length of a value in a message."""


@dataclass(slots=True, frozen=True)
class Record:
    """A record to produce or to expect. Fields that are not given are chosen by Kafka when producing, and not compared when
    expecting.

    ``timestamp`` is a time with time zone, or milliseconds since 1970.
    """

    value: Any
    key: Any = UNSET
    headers: RecordHeaders | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    timestamp: int | datetime | UnsetType = UNSET

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in self.__slots__[1:])
        return f"Record({', '.join([shown(self.value), *(f'{name}={value!r}' for name, value in given if value is not UNSET)])})"


def serialize(value: Any) -> bytes | None:
    """Return the bytes of a value. Raises TypeError for a value that is neither bytes, text nor JSON."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{shown(value)} cannot be written as JSON ({error}); give bytes, text, or a serializer=") from None


def each(values: Any) -> list[Any]:
    """Return a collection as a list, and any other value, also text, bytes or a mapping, as a list of one value."""
    if isinstance(values, str | bytes | bytearray | memoryview):
        return [values]
    is_many = isinstance(values, Sequence | Set | Iterator | MappingView)
    return list(values) if is_many else [values]


def new_records(
    values: Any,
    *,
    key: Any = None,
    headers: RecordHeaders | None = None,
    partition: int | None = None,
    timestamp: int | datetime | None = None,
    serializer: Callable[[Any], Serialized] | None = None,
) -> list[NewRecord]:
    """Convert values to records. The fields of a `Record` take precedence. Raises TypeError and ValueError."""
    to_bytes = serialize if serializer is None else lambda value: serialize(serializer(value))
    records = []
    for one in each(values):
        record = one if isinstance(one, Record) else Record(one)
        own_key = record.key
        if own_key is UNSET:
            own_key = key(record.value) if callable(key) else key
        own_headers = _or(record.headers, headers)
        own_timestamp = _or(record.timestamp, timestamp)
        records.append(
            NewRecord(
                value=None if record.value is None else to_bytes(record.value),
                key=serialize(own_key),
                headers=[] if own_headers is None else header_list(own_headers),
                partition=_or(record.partition, partition),
                timestamp_ms=None if own_timestamp is None else timestamp_ms(own_timestamp),
            )
        )
    return records


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is UNSET else value


def header_list(headers: RecordHeaders) -> list[tuple[str, bytes | None]]:
    """Return headers as a list of names and bytes."""
    pairs: Iterable[tuple[str, bytes | str | None]] = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, serialize(value)) for name, value in pairs]


def timestamp_ms(timestamp: int | datetime) -> int:
    """Return a timestamp in ms since 1970. Raises ValueError for a time without time zone."""
    if not isinstance(timestamp, datetime):
        return timestamp
    if timestamp.tzinfo is None:
        raise ValueError(f"timestamp {timestamp.isoformat()} has no time zone; give one such as datetime.now(UTC)")
    return round(timestamp.timestamp() * 1_000)


def deserialize(deserializer: Callable[[bytes], T], value: bytes | None) -> T | None:
    """Apply a deserializer to a value. A tombstone stays None, and the class ``str`` decodes UTF-8."""
    if value is None:
        return None
    # `str(b"a")` would return "b'a'".
    return value.decode() if deserializer is str else deserializer(value)  # type: ignore[return-value]


def as_json(value: bytes | None) -> Any:
    """Parse a value as JSON. Returns `UNSET` if it is not JSON."""
    try:
        return UNSET if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return UNSET


def shown(value: Any) -> str:
    """Format a value for a message: text in quotes, JSON as it is, and other bytes as Python shows them."""
    text = _shown(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return repr(value)
        if as_json(value.encode()) is not UNSET:
            return str(value) if value.isprintable() else repr(value)
    return repr(value)
