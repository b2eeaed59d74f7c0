"""Confluent's wire format: headers with a schema id, and message indexes before Protobuf values."""

from __future__ import annotations

import datetime
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.schema_registry.decoding import plain
from ottla.client.schema_registry.framing import framed, message_indexes, unframed


@given(st.integers(0, 2**32 - 1), st.binary(max_size=20))
def test_value_with_a_schema_id_header_round_trips(schema_id: int, payload: bytes) -> None:
    split = unframed(framed(schema_id, payload))
    assert split is not None
    assert (split.schema_id, split.payload) == (schema_id, payload)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\0", b"\1\0\0\0\1x", b"{}"])
def test_value_without_a_schema_id_is_not_split(data: bytes | None) -> None:
    assert unframed(data) is None


@pytest.mark.parametrize(
    ("payload", "indexes", "rest"),
    [
        (b"\0x", [0], b"x"),
        (b"\2\0x", [0], b"x"),
        (b"\4\2\4", [1, 2], b""),
        (b"\2\x80\2", [128], b""),
    ],
)
def test_protobuf_message_indexes_are_zigzag_varints(payload: bytes, indexes: list[int], rest: bytes) -> None:
    assert message_indexes(payload) == (indexes, rest)


@pytest.mark.parametrize("payload", [b"", b"\1", b"\2", b"\xff" * 10, b"\x80", b"\xfe\xff\x03"])
def test_malformed_protobuf_message_indexes_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        message_indexes(payload)


@given(st.binary(max_size=12))
def test_random_protobuf_message_indexes_raise_only_the_documented_error(payload: bytes) -> None:
    try:
        indexes, rest = message_indexes(payload)
    except ValueError:
        return
    assert len(indexes) + len(rest) <= len(payload) + 1


def test_decoded_schema_registry_values_are_converted_to_json_types() -> None:
    value = {"at": datetime.date(2026, 1, 2), "price": decimal.Decimal("1.50"), "raw": b"\0", "list": (1, None)}
    assert plain(value) == {"at": "2026-01-02", "price": "1.50", "raw": {"base64": "AA=="}, "list": [1, None]}
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ValueError):
        plain(deep)
