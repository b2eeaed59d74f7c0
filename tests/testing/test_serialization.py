"""Conversion of values in tests to bytes of records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.testing.serialization import Record, deserialize, new_records, serialize, shown


@dataclass
class Order:
    id: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\xff", b"\xff"),
        ("\u00e9", "\u00e9".encode()),
        (None, None),
        ({"id": 1}, b'{"id":1}'),
        ([1, "a"], b'[1,"a"]'),
        (True, b"true"),
        (Order(1), b'{"id":1}'),
    ],
)
def test_produced_value_is_serialized_as_bytes_text_or_json(value: Any, expected: bytes | None) -> None:
    assert serialize(value) == expected


def test_produce_refuses_a_value_that_is_not_json_serializable() -> None:
    with pytest.raises(TypeError, match=r"cannot be written as JSON .* give bytes, text, or a serializer="):
        serialize(object())


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ("paid", 1),
        (b"paid", 1),
        ({"id": 1}, 1),
        (None, 1),
        (Order(1), 1),
        (["a", "b"], 2),
        (iter("ab"), 2),
        ({"a": 1}.keys(), 1),
        ([], 0),
    ],
)
def test_produce_of_a_single_value_writes_one_record(values: Any, count: int) -> None:
    assert len(new_records(values)) == count


def test_produce_accepts_a_key_function_of_the_value() -> None:
    keys = [record.key for record in new_records([{"id": 1}, Record({"id": 2}, key="own")], key=lambda order: str(order["id"]))]
    assert keys == [b"1", b"own"]


def test_produce_applies_headers_timestamp_and_partition_to_each_record() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    (record,) = new_records("a", headers={"n": "v", "none": None}, timestamp=at, partition=2)
    assert (record.headers, record.timestamp_ms, record.partition) == ([("n", b"v"), ("none", None)], 1_767_225_600_000, 2)
    with pytest.raises(ValueError, match="has no time zone"):
        new_records("a", timestamp=datetime(2026, 1, 1))


def test_produce_does_not_call_the_serializer_for_a_tombstone() -> None:
    assert [record.value for record in new_records([2, None], serializer=lambda value: value.to_bytes(1))] == [b"\x02", None]


def test_str_as_deserializer_decodes_utf_8() -> None:
    assert deserialize(str, b"a") == "a"
    assert deserialize(str, None) is None


def test_record_values_are_shown_readably_in_failure_messages() -> None:
    assert [shown(value) for value in (b'{"id": 1}', b"a", b"\xff", None)] == ['{"id": 1}', "'a'", "b'\\xff'", "None"]
    assert len(shown("x" * 1_000)) == 100
