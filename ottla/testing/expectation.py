"""Compares the records of a topic with the records that a test expects, and describes the difference.

An expected value determines how a record's value is decoded: bytes as they are, text as UTF-8, and all else as JSON. So
``{"id": 1}`` equals the value ``b'{ "id": 1 }'``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

from msgspec import UNSET

from ottla.client.records.record import ConsumedRecord
from ottla.testing.serialization import Record, as_json, deserialize, header_list, serialize, shown, timestamp_ms

MAX_LINES: Final = 10
"""Maximum number of lines with records in a difference."""
WINDOW: Final = 200
"""Maximum number of expected and of actual records that are aligned after the first difference."""
MAX_MOVED: Final = 300
"""Maximum number of expected values with which `_assign` reassigns records, because each value may take a level of recursion."""
CONTEXT: Final = 3
"""Number of equal records that are shown before the first difference."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Difference:
    """How records differ from the expected records. With ``is_final`` later records cannot make them equal."""

    is_final: bool
    missing: list[Any] = field(default_factory=list)
    unexpected: list[ConsumedRecord] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


class Expectation:
    """The expected records of a topic, in the order in which they are written or in any order."""

    def __init__(
        self, expected: Iterable[Any], *, in_any_order: bool = False, deserializer: Callable[[bytes], Any] | None = None
    ) -> None:
        self.expected = list(expected)
        self._in_any_order = in_any_order
        self._deserializer = deserializer

    def compare(self, records: Sequence[ConsumedRecord]) -> Difference | None:
        """Return the difference, or None if the records are as expected."""
        return self._unordered(records) if self._in_any_order else self._ordered(records)

    def matches(self, expected: Any, record: ConsumedRecord) -> bool:
        """Whether a record is as expected."""
        if not isinstance(expected, Record):
            return self._value_matches(expected, record.value)
        return (
            self._value_matches(expected.value, record.value)
            and (expected.key is UNSET or _plainly_matches(expected.key, record.key))
            and (expected.partition is UNSET or expected.partition == record.partition)
            and (isinstance(expected.headers, type(UNSET)) or header_list(expected.headers) == record.headers)
            and (isinstance(expected.timestamp, type(UNSET)) or timestamp_ms(expected.timestamp) == record.timestamp_ms)
        )

    def _value_matches(self, expected: Any, value: bytes | None) -> bool:
        if self._deserializer is None:
            return _plainly_matches(expected, value)
        try:
            return bool(deserialize(self._deserializer, value) == expected)
        except Exception:  # a deserializer raises errors of any type for a record that it does not understand
            return False

    def _ordered(self, records: Sequence[ConsumedRecord]) -> Difference | None:
        equal = 0
        for expected, record in zip(self.expected, records, strict=False):
            if not self.matches(expected, record):
                break
            equal += 1
        missing, unexpected = self.expected[equal:], list(records[equal:])
        if not missing and not unexpected:
            return None
        if not unexpected:
            return Difference(is_final=False, missing=missing, lines=_lines(records[:equal], [(missing, [], [])]))
        blocks = self._aligned(missing[:WINDOW], unexpected[:WINDOW])
        blocks.append((missing[WINDOW:], unexpected[WINDOW:], []))
        return Difference(
            is_final=True,
            missing=[one for block in blocks for one in block[0]],
            unexpected=[one for block in blocks for one in block[1]],
            lines=_lines(records[:equal], blocks),
        )

    def _aligned(self, expected: list[Any], records: list[ConsumedRecord]) -> list[_Block]:
        """Align two lists. Returns blocks of missing, unexpected and equal records, in this order."""
        # For `SequenceMatcher` a record gets the number of the first expected value that it matches, or a unique number.
        numbers = [next(i for i, other in enumerate(expected) if other is one or _same(other, one)) for one in expected]
        found = [
            next((i for i, one in enumerate(expected) if self.matches(one, record)), -1 - at) for at, record in enumerate(records)
        ]
        blocks, at_expected, at_record = list[_Block](), 0, 0
        for match in SequenceMatcher(None, numbers, found, autojunk=False).get_matching_blocks():
            equal = records[match.b : match.b + match.size]
            blocks.append((expected[at_expected : match.a], records[at_record : match.b], equal))
            at_expected, at_record = match.a + match.size, match.b + match.size
        return blocks

    def _unordered(self, records: Sequence[ConsumedRecord]) -> Difference | None:
        missing, unexpected = self._matched(records)
        if not missing and not unexpected:
            return None
        gone = {(one.partition, one.offset) for one in unexpected}
        equal = [one for one in records if (one.partition, one.offset) not in gone]
        return Difference(
            is_final=bool(unexpected), missing=missing, unexpected=unexpected, lines=_lines(equal, [(missing, unexpected, [])])
        )

    def _matched(self, records: Sequence[ConsumedRecord]) -> tuple[list[Any], list[ConsumedRecord]]:
        """Return the expected values that no record matches, and the records that match no expected value."""
        missing: list[Any] = []
        rest, left = self._without_exact(records)
        owner: dict[int, int] = {}
        for number in range(len(rest)):
            if not self._assign(number, rest, left, owner, set()):
                missing.append(rest[number])
        return missing, [record for at, record in enumerate(left) if at not in owner]

    def _without_exact(self, records: Sequence[ConsumedRecord]) -> tuple[list[Any], list[ConsumedRecord]]:
        """Pair expected values with records of equal bytes or JSON. Returns the values and records without a pair."""
        if self._deserializer is not None:
            return self.expected, list(records)
        by_value: dict[bytes | str | None, list[ConsumedRecord]] = {}
        for record in reversed(records):
            by_value.setdefault(record.value, []).append(record)
        if any(isinstance(one, dict | list) for one in self.expected):
            for record in reversed(records):
                by_value.setdefault(_canonical(as_json(record.value)), []).append(record)
        taken: set[tuple[int, int]] = set()
        rest: list[Any] = []
        for one in self.expected:
            key = _canonical(one) if isinstance(one, dict | list) else one.encode() if isinstance(one, str) else one
            same = by_value.get(key, []) if key is None or isinstance(key, bytes) else []
            while same and (same[-1].partition, same[-1].offset) in taken:
                same.pop()
            if same:
                taken.add((same[-1].partition, same[-1].offset))
            else:
                rest.append(one)
        return rest, [record for record in records if (record.partition, record.offset) not in taken]

    def _assign(
        self, number: int, expected: list[Any], records: list[ConsumedRecord], owner: dict[int, int], tried: set[int]
    ) -> bool:
        """Assign a record to the expected value ``number``. Returns False if none is left.

        Other expected values get other records if needed (Kuhn's algorithm), because a pattern that matches many records may have
        the only record that this value matches.
        """
        for at, record in enumerate(records):
            if at in tried or not self.matches(expected[number], record):
                continue
            tried.add(at)
            moves = len(expected) <= MAX_MOVED
            if at not in owner or (moves and self._assign(owner[at], expected, records, owner, tried)):
                owner[at] = number
                return True
        return False


_Block = tuple[list[Any], list[ConsumedRecord], list[ConsumedRecord]]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _plainly_matches(expected: Any, raw: bytes | None) -> bool:
    if expected is None or isinstance(expected, bytes | str):
        return raw == serialize(expected)
    decoded = as_json(raw)
    return bool(expected == raw) if decoded is UNSET else bool(expected == decoded)


def _canonical(value: Any) -> bytes | str:
    """Return JSON whose bytes are equal for equal values. Returns text, which equals no record, if the value is not JSON."""
    try:
        return b"json " + json.dumps(value, sort_keys=True).encode()
    except (TypeError, ValueError):
        # The value can only be compared, such as `unittest.mock.ANY`.
        return ""


def _lines(equal: Sequence[ConsumedRecord], blocks: list[_Block]) -> list[str]:
    """Return a line for each record: ``-`` for a missing one, ``+`` for an unexpected one."""
    lines = [_line(" ", record) for record in equal[-CONTEXT:]]
    if len(equal) > CONTEXT:
        lines.insert(0, f"    ... {len(equal) - CONTEXT} equal")
    for missing, unexpected, after in blocks:
        lines += [f"  - {'missing':<12} {_expected(one)}" for one in missing]
        lines += [_line("+", record) for record in unexpected]
        lines += [_line(" ", record) for record in after]
    more = len(lines) - MAX_LINES
    return lines if more <= 0 else [*lines[:MAX_LINES], f"    ... {more} more"]


def _expected(one: Any) -> str:
    if isinstance(one, Record):
        return repr(one)
    try:
        return shown(one if isinstance(one, str) else serialize(one))
    except TypeError:
        return repr(one)


def _line(sign: str, record: ConsumedRecord) -> str:
    key = "" if record.key is None else f"  key {shown(record.key)}"
    return f"  {sign} {f'{record.partition} at {record.offset}':<12} {shown(record.value)}{key}"
