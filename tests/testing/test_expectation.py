"""Comparison of records with the records that a test expects."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import ANY

import pytest

from ottla.client.records.record import ConsumedRecord
from ottla.testing.expectation import MAX_LINES, Expectation
from ottla.testing.serialization import Record


def records(*values: bytes | None, **fields: Any) -> list[ConsumedRecord]:
    given = {"key": None, "headers": [], "timestamp_ms": 0, "partition": 0} | fields
    others: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1, "transactional": False, "control": None}
    return [ConsumedRecord(topic="orders", offset=offset, value=value, **given, **others) for offset, value in enumerate(values)]


@pytest.mark.parametrize("in_any_order", [False, True])
def test_expect_compares_values_by_the_type_of_the_expected_value(in_any_order: bool) -> None:
    expected = [b"\xff", "\u00e9", None, {"id": 1, "of": [2]}, 3, {"id": ANY}, ANY]
    there = records(b"\xff", "\u00e9".encode(), None, b'{ "of": [2], "id": 1 }', b"3", b'{"id": 9}', b"anything")
    assert Expectation(expected, in_any_order=in_any_order).compare(there) is None


def test_expected_text_with_json_quotes_does_not_match_a_value_without_quotes() -> None:
    assert Expectation(["1"]).compare(records(b"1")) is None
    assert Expectation([1]).compare(records(b"1")) is None
    assert Expectation(['"a"']).compare(records(b"a")) is not None


def test_expect_compares_only_the_given_fields_of_a_record() -> None:
    there = records(b"paid", key=b"a", headers=[("from", b"web")], timestamp_ms=5)
    assert Expectation([Record("paid", key="a", headers={"from": "web"}, partition=0, timestamp=5)]).compare(there) is None
    for wrong in ({"key": "b"}, {"headers": {}}, {"partition": 1}, {"timestamp": 6}, {"key": None}):
        assert Expectation([Record("paid", **wrong)]).compare(there) is not None, wrong


def test_expect_difference_lists_missing_and_unexpected_records_in_order() -> None:
    difference = Expectation(["a", "b", "c", "d"]).compare(records(b"a", b"x", b"c", b"d"))
    assert difference is not None and difference.is_final
    assert [line.split() for line in difference.lines] == [
        ["0", "at", "0", "'a'"],
        ["-", "missing", "'b'"],
        ["+", "0", "at", "1", "'x'"],
        ["0", "at", "2", "'c'"],
        ["0", "at", "3", "'d'"],
    ]


def test_expect_waits_while_records_are_only_missing() -> None:
    for in_any_order in (False, True):
        difference = Expectation(["a", "b"], in_any_order=in_any_order).compare(records(b"a"))
        assert difference is not None and (difference.missing, difference.is_final) == (["b"], False)


def test_expect_any_does_not_match_a_record_that_another_value_needs() -> None:
    assert Expectation([Record(ANY), Record(b"b")], in_any_order=True).compare(records(b"b", b"a")) is None


def test_expect_in_any_order_reports_a_duplicate_record_as_unexpected() -> None:
    difference = Expectation(["a", "b"], in_any_order=True).compare(records(b"a", b"b", b"a"))
    assert difference is not None and [record.offset for record in difference.unexpected] == [2]


def test_expect_in_any_order_compares_20_000_records_quickly() -> None:
    values = [json.dumps({"id": number}, indent=1).encode() for number in range(20_000)]
    assert Expectation([json.loads(value) for value in reversed(values)], in_any_order=True).compare(records(*values)) is None
    difference = Expectation([{"id": -1}, *map(json.loads, values)]).compare(records(*values))
    assert difference is not None and len(difference.lines) == MAX_LINES + 1


def test_expect_decodes_records_with_the_given_deserializer() -> None:
    def decode(value: bytes) -> int:
        return int.from_bytes(value, "big")

    assert Expectation([1, 2], deserializer=decode).compare(records(b"\x01", b"\x00\x02")) is None
    assert Expectation([1], deserializer=json.loads).compare(records(b"\xff")) is not None
