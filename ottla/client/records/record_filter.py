"""Selects records by conditions such as ``key=order-7``, ``value.status!=paid``, ``header.trace`` and ``offset>=100``.

A condition is a field, an operator and a text, with or without blanks around the operator. A field alone holds for records that
have the field; with ``!`` before the field, for records without the field. A path after ``key`` or ``value`` selects a member of a
JSON document. A JSONPath may select several members: one matching member fulfils the condition, but excludes the record for ``!=``
and ``!~``. ``ottla consume --filter`` and the console's pages of records share this filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.arguments import BadArgument
from ottla.client.admin.places import time_ms
from ottla.client.errors import ClientError
from ottla.client.records.expressions import pattern
from ottla.client.records.record import ConsumedRecord

if TYPE_CHECKING:
    from ottla.client.records.json_path import JsonPath

MISSING: Final = object()
"""Returned instead of a document for bytes that are not JSON."""
ANY: Final = "any"
"""The field whose values are the key, the value, and the names and values of the headers."""
_CONDITION = re.compile(r"(!?)([^=!~<>]+)(!=|!~|<=|>=|=|~|<|>)?(.*)", re.DOTALL)
_JSON_PATH = re.compile(r"(!?)(key|value)(\$.*)", re.DOTALL)
_OPERATOR = re.compile(r"!=|!~|<=|>=|=|~|<|>")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(-?\d+)\]")
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
_NUMBERS: Final[dict[str, Callable[[ConsumedRecord], int]]] = {
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "time": lambda record: record.timestamp_ms,
    "producer": lambda record: record.producer_id,
}
FIELDS: Final = ("key", "value", "header.NAME", ANY, *_NUMBERS)
EXAMPLES: Final = "key=order-7, value.status=paid, value$..price>100, value~ERROR, header.trace, !value or offset>=100"

Document = Callable[[bytes], Any]
"""Decodes a key or value for conditions with a path; returns `MISSING` for undecodable bytes."""


def json_document(data: bytes) -> Any:
    """Return the JSON document in a key or value; `MISSING` for other bytes."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return MISSING


@dataclass(slots=True, frozen=True)
class Condition:
    """A condition on a record. ``steps`` is the path into the document of a key or value, or the name of a header."""

    field: str
    steps: tuple[str | int, ...]
    operator: str
    holds: Callable[[Any], bool]
    is_negated: bool = False
    json_path: JsonPath | None = None

    def __call__(self, record: ConsumedRecord, document: Document = json_document) -> bool:
        """Whether the record fulfils the condition. Raises `ClientError` if a JSONPath visits too many nodes of the record."""
        try:
            found = self._values(record, document)
            if not self.operator:
                return (next(found, MISSING) is MISSING) == self.is_negated
            holds = any(self.holds(one) for one in found)
        except ClientError as error:
            raise ClientError(f"{record.topic}-{record.partition} at offset {record.offset:,}: {error}") from None
        return not holds if self.operator.startswith("!") else holds

    def _values(self, record: ConsumedRecord, document: Document) -> Iterator[Any]:
        if self.field in _NUMBERS:
            yield _NUMBERS[self.field](record)
        elif self.field == "header":
            # If several headers have the same name, the last one counts, as in Kafka's Headers.lastHeader.
            values = [value for name, value in record.headers if name == self.steps[0]]
            if values:
                yield values[-1] or b""
        elif record.control is not None:
            return
        elif self.field == ANY:
            headers = (part for name, value in record.headers for part in (name.encode("utf-8", "surrogateescape"), value))
            yield from (part for part in (record.key, record.value, *headers) if part is not None)
        else:
            raw = record.key if self.field == "key" else record.value
            if raw is not None:
                yield from self._members(raw, document)

    def _members(self, raw: bytes, document: Document) -> Iterator[Any]:
        if self.json_path is None and not self.steps:
            yield raw
            return
        found = document(raw)
        if self.json_path is not None:
            if found is not MISSING:
                yield from self.json_path.values(found)
            return
        for step in self.steps:
            kind: type[Any] = list if isinstance(step, int) else dict
            if not isinstance(found, kind):
                return
            try:
                found = found[step]
            except (KeyError, IndexError):
                return
        yield found


@dataclass(slots=True, frozen=True)
class RecordFilter:
    """Conditions that a record must all fulfil. ``document`` decodes keys and values for conditions with a path."""

    conditions: tuple[Condition, ...]
    document: Document = json_document

    def __call__(self, record: ConsumedRecord) -> bool:
        """Whether the record fulfils all conditions. Raises `ClientError` if a JSONPath visits too many nodes of the record."""
        return all(condition(record, self.document) for condition in self.conditions)

    @property
    def reads_documents(self) -> bool:
        """Whether the filter decodes keys or values, which takes much longer than a comparison of bytes."""
        return any(one.json_path is not None or (one.steps and one.field != "header") for one in self.conditions)


def contains(field: str, text: str) -> Condition:
    """Return the condition that a field contains a text, compared as UTF-8 bytes, ignoring the case of ASCII letters. The field is
    ``key``, ``value``, ``any`` or ``header.NAME``."""
    wanted = text.encode("utf-8", "surrogateescape").lower()
    name, _, header = field.partition(".")
    return Condition(
        field=name, steps=(header,) if header else (), operator="~", holds=lambda found: wanted in bytes(found).lower()
    )


def has_header(name: str) -> Condition:
    """Return the condition that a record has a header with this name."""
    return Condition(field="header", steps=(name,), operator="", holds=bool)


def number_is(field: str, holds: Callable[[int], bool]) -> Condition:
    """Return the condition that ``holds`` is true for a number of a record, such as its timestamp in ms."""
    return Condition(field=field, steps=(), operator="=", holds=holds)


def all_of(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Parse conditions. Raises `BadArgument`."""
    return tuple(map(condition, texts))


def condition(text: str) -> Condition:
    """Parse a condition. Raises `BadArgument`."""
    found = _JSON_PATH.fullmatch(text)
    if found is not None:
        return _json_path_condition(text, *found.groups())
    found = _CONDITION.fullmatch(text)
    negation, path, operator, wanted = found.groups("") if found is not None else ("", "", "", "")
    if not path or (wanted and not operator):
        raise BadArgument(f"{text!r} is not a condition; expected for example {EXAMPLES}")
    path, wanted = _without_blanks(text, path, operator, wanted)
    first, _, rest = path.partition(".")
    field = first.partition("[")[0]
    if field not in {"key", "value", "header", ANY, *_NUMBERS}:
        raise BadArgument(
            f"unknown field {field!r}; the fields are {', '.join(FIELDS)}, and key or value with a path as in value.a.b"
        )
    _check_one_negation(text, negation, path, operator, wanted)
    steps = _header(text, rest) if field == "header" else _path(text, path[len(field) :])
    if field in (ANY, *_NUMBERS):
        if steps:
            raise BadArgument(f"field {field!r} has no members")
        if not operator:
            example = "any~ERROR" if field == ANY else f"{field}>=100"
            raise BadArgument(f"{text!r} holds for every record; give a comparison such as {example}")
    return Condition(field=field, steps=steps, operator=operator, holds=_test(field, operator, wanted), is_negated=bool(negation))


def _without_blanks(text: str, path: str, operator: str, wanted: str) -> tuple[str, str]:
    """Return path and text of a condition without the blanks around the operator. Raises `BadArgument` for the operator ``==``."""
    path, wanted = path.strip(), wanted.strip()
    if operator == "=" and wanted.startswith("="):
        raise BadArgument(f"{text!r} has ==; give {path}={wanted[1:].strip()}, or {path}~^= for a text that begins with =")
    return path, wanted


def _check_one_negation(text: str, negation: str, path: str, operator: str, wanted: str) -> None:
    if negation and operator:
        raise BadArgument(f"{text!r} has both ! and {operator}; give {path}!{operator[-1]}{wanted}, or !{path}")


def _json_path_condition(text: str, negation: str, field: str, rest: str) -> Condition:
    expression, operator, wanted = _split(rest)
    path, wanted = _without_blanks(text, field + expression, operator, wanted)
    expression = path.removeprefix(field)
    _check_one_negation(text, negation, field + expression, operator, wanted)
    try:
        from ottla.client.records.json_path import JsonPath
    except ImportError:
        raise BadArgument("JSONPath needs python-jsonpath; install it with pip install 'ottla[console]'") from None
    return Condition(
        field=field,
        steps=(),
        operator=operator,
        holds=_test(field, operator, wanted),
        is_negated=bool(negation),
        json_path=JsonPath(expression),
    )


def _split(text: str) -> tuple[str, str, str]:
    """Split a text into a JSONPath, an operator and the compared value. Operators in brackets and quotes belong to the path."""
    depth, quote, at = 0, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif depth and char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth == 0 and (found := _OPERATOR.match(text, at)):
            return text[:at], found[0], text[found.end() :]
        at += 1
    return text, "", ""


def _header(text: str, name: str) -> tuple[str]:
    if not name:
        raise BadArgument(f"{text!r} names no header; give header.NAME")
    return (name,)


def _path(text: str, path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise BadArgument(f"{text!r} has no valid path; expected for example value.items[0].price")
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    return tuple(steps)


def _test(field: str, operator: str, wanted: str) -> Callable[[Any], bool]:
    if operator in ("~", "!~"):
        if field in _NUMBERS:
            raise BadArgument(f"field {field!r} is a number; compare it with = < <= > >= or !=")
        compiled = pattern(wanted)
        return lambda found: compiled.search(_raw(found)) is not None
    number = _number(field, wanted)
    if operator in _ORDER:
        if number is None:
            raise BadArgument(_no_number(field, wanted, f"is not a number; {operator} compares numbers"))
        compare = _ORDER[operator]
        return lambda found: (given := _as_number(found)) is not None and compare(given, number)
    if field in _NUMBERS:
        if operator and number is None:
            raise BadArgument(_no_number(field, wanted, f"is not a number, which field {field!r} is"))
        return lambda found: bool(found == number)
    raw = wanted.encode("utf-8", "surrogateescape")
    return lambda found: _raw(found) == raw or (_is_json_number(found) and found == number)


def _no_number(field: str, text: str, reason: str) -> str:
    if field == "time":
        return f"{text!r} is not a time; give one such as 2026-11-23T17:00Z, or ms since 1970"
    return f"{text!r} {reason}"


def _number(field: str, text: str) -> float | int | None:
    """Parse a number; for the field ``time`` also a time such as 2026-11-23T17:00Z."""
    if field == "time" and (ms := time_ms(text)) is not None:
        return ms
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _is_json_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _as_number(found: Any) -> float | int | None:
    if isinstance(found, bytes):
        return _number("", found.decode("utf-8", "replace"))
    return found if _is_json_number(found) else None


def _raw(found: Any) -> bytes:
    """Return the bytes of a value that are compared with a text: a JSON string as it is, and any other JSON value as JSON."""
    if isinstance(found, bytes):
        return found
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
