"""Selects records by conditions such as ``key=order-7``, ``value.status!=paid``, ``header.trace`` and ``offset>=100``.

A condition has a field, and an operator with a text. Without an operator it holds for records that have the field; with ``!``
before the field, for records that do not have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.arguments import BadArgument
from ottla.client import ConsumedRecord
from ottla.client.admin.places import time_ms

MISSING: Final = object()
"""The value of a field that a record does not have: a null key or value, or no such header or JSON member."""
_CONDITION = re.compile(r"(!?)([^=!~<>]+)(!=|!~|<=|>=|=|~|<|>)?(.*)", re.DOTALL)
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
FIELDS: Final = ("key", "value", "header.NAME", *_NUMBERS)
EXAMPLES: Final = "key=order-7, value.status=paid, value~ERROR, header.trace, !value or offset>=100"


@dataclass(slots=True, frozen=True)
class Condition:
    """A condition on a record. ``steps`` is the path into the JSON document of a key or value, or the name of a header."""

    field: str
    steps: tuple[str | int, ...]
    operator: str
    holds: Callable[[Any], bool]
    is_negated: bool = False

    def __call__(self, record: ConsumedRecord) -> bool:
        found = self._value(record)
        if not self.operator:
            return (found is MISSING) == self.is_negated
        if self.operator.startswith("!"):
            return found is MISSING or not self.holds(found)
        return found is not MISSING and self.holds(found)

    def _value(self, record: ConsumedRecord) -> Any:
        if self.field in _NUMBERS:
            return _NUMBERS[self.field](record)
        if self.field == "header":
            # Of several headers with one name the last is the current one, as in Kafka's Headers.lastHeader.
            values = [value for name, value in record.headers if name == self.steps[0]]
            return MISSING if not values else values[-1] if values[-1] is not None else b""
        raw = record.key if self.field == "key" else record.value
        if raw is None or record.control is not None:
            return MISSING
        return _member(raw, self.steps) if self.steps else raw


def _member(raw: bytes, steps: tuple[str | int, ...]) -> Any:
    """Return the member of a JSON document at a path; `MISSING` also for bytes that are not JSON."""
    try:
        found: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return MISSING
    for step in steps:
        kind: type[Any] = list if isinstance(step, int) else dict
        if not isinstance(found, kind):
            return MISSING
        try:
            found = found[step]
        except (KeyError, IndexError):
            return MISSING
    return found


def condition(text: str) -> Condition:
    """Parse a condition. Raises `BadArgument`."""
    found = _CONDITION.fullmatch(text)
    negation, path, operator, wanted = found.groups("") if found is not None else ("", "", "", "")
    if not path or (wanted and not operator):
        raise BadArgument(f"{text!r} is not a condition; expected for example {EXAMPLES}")
    first, _, rest = path.partition(".")
    field = first.partition("[")[0]
    if field not in {"key", "value", "header", *_NUMBERS}:
        raise BadArgument(
            f"unknown field {field!r}; the fields are {', '.join(FIELDS)}, and key or value with a path as in value.a.b"
        )
    if negation and operator:
        raise BadArgument(f"{text!r} has both ! and {operator}; give {path}!{operator[-1]}{wanted}, or !{path}")
    steps = _header(text, rest) if field == "header" else _path(text, path[len(field) :])
    if field in _NUMBERS:
        if steps:
            raise BadArgument(f"field {field!r} has no members")
        if not operator:
            raise BadArgument(f"{text!r} holds for every record; give a comparison such as {field}>=100")
    return Condition(field=field, steps=steps, operator=operator, holds=_test(field, operator, wanted), is_negated=bool(negation))


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
        pattern = _pattern(wanted)
        return lambda found: pattern.search(_raw(found)) is not None
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


def _pattern(expression: str) -> Any:
    """Compile a regular expression with RE2, whose matching takes linear time: Python's own ``re`` may take exponential time."""
    try:
        import re2
    except ImportError:
        raise BadArgument("regular expressions need google-re2: pip install google-re2") from None
    options = re2.Options()
    options.log_errors = False
    # Keys and values are bytes, which need not be UTF-8.
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(expression.encode("utf-8", "surrogateescape"), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "it is invalid"
        raise BadArgument(
            f"{expression!r} is not a regular expression of RE2: {reason}; RE2 has no lookaround such as (?=x), no backreferences"
            r" such as \1, and no possessive repetitions"
        ) from None


def _no_number(field: str, text: str, reason: str) -> str:
    if field == "time":
        return f"{text!r} is not a time; give one such as 2026-11-23T17:00Z, or ms since 1970"
    return f"{text!r} {reason}"


def _number(field: str, text: str) -> float | int | None:
    """Parse a number; for the field time also a time such as 2026-11-23T17:00Z."""
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
