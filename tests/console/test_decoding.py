"""Formats of keys and values are recognised, and hostile bytes are shown as text."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.console.decoding import CHOICES, INSPECTED_BYTES, Decoded, decode, decode_internal
from ottla.protocol.internal_topics import OFFSETS_TOPIC


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b'{"total": 1.0, "id": 12345678901234567890}', "json", '{"total": 1.0, "id": 12345678901234567890}'),
        (b" [1]", "json", " [1]"),
        (b"12", "text", "12"),
        (b"", "text", ""),
        ("größer\n".encode(), "text", "größer\n"),
        (b'{"unfinished": ', "text", '{"unfinished": '),
        ((7).to_bytes(4, "big"), "int32", "7"),
        ((-7).to_bytes(8, "big", signed=True), "int64", "-7"),
        (msgspec.msgpack.encode({"a": [1, b"\xff"]}), "msgpack", '{"a":[1,"ff"]}'),
        (b"\xff\xfe\x80", "hex", "ff fe 80"),
        (b"\0\0\0\0\0", "hex", "00 00 00 00 00"),
    ],
)
def test_console_recognises_the_format_of_a_record_value(data: bytes, kind: str, text: str) -> None:
    found = decode(data)
    assert (found.kind, found.text) == (kind, text)


def test_console_distinguishes_cbor_values_from_messagepack() -> None:
    cbor2 = pytest.importorskip("cbor2")
    for value in ({"a": 1}, [1, 2, "x"], {"deep": {"list": [None, True]}}):
        found = decode(cbor2.dumps(value))
        assert (found.kind, json.loads(found.text)) == ("cbor", value)
        found = decode(msgspec.msgpack.encode(value))
        assert (found.kind, json.loads(found.text)) == ("msgpack", value)
    assert decode(cbor2.dumps({"a": 1}) + b"\0", "cbor").problem == "not cbor: bytes follow the value"


@pytest.mark.parametrize("form", CHOICES)
@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b"\x91" * 100_000, b"\x81" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xff" * 9],
)
def test_console_shows_hostile_encoded_values_as_text(form: str, data: bytes) -> None:
    assert decode(data, form).text


def test_console_does_not_decode_a_value_above_the_size_limit() -> None:
    large = b"[" + b"1," * INSPECTED_BYTES + b"1]"
    assert decode(large).kind == "text"
    assert decode(large, "json").problem == "more than 1,048,576 bytes are not decoded"


def test_console_prefers_registry_schemas_over_guessed_value_formats() -> None:
    class Registry:
        def decode(self, data: bytes) -> Decoded | None:
            return Decoded(kind="avro", text="{}", is_json=True) if data.startswith(b"\0") else None

    assert decode(b"\0\0\0\0\1x", registered=Registry()).kind == "avro"
    assert decode(b"text", registered=Registry()).kind == "text"
    assert decode(b"text", "schema").problem == "no registry has a schema for this value"


@given(st.binary(max_size=40), st.sampled_from(CHOICES))
def test_console_shows_any_bytes_in_any_requested_format(data: bytes, form: str) -> None:
    found = decode(data, form)
    msgspec.json.encode(found)
    if found.is_json:
        json.loads(found.text)


def test_console_decodes_records_of_internal_topics() -> None:
    assert decode_internal("orders", b"k", b"v") is None
    assert decode_internal(OFFSETS_TOPIC, b"\0\x63", None) == {"undecodable": "unknown record type 99"}
