"""Errors of odd JSON have none of Python's words: in the parser, the registry's schemas, and encoded and decoded values."""

from __future__ import annotations

import json
import re

import pytest

from ottla.client.errors import ClientError
from ottla.client.schema_registry import registry_client
from ottla.client.schema_registry.decoding import RegistryDecoder
from ottla.client.schema_registry.encoding import registering_encoder
from ottla.client.schema_registry.framing import framed
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, Registry, RegistryClient
from ottla.client.schema_registry.strict_json import NotJson, parsed_json
from ottla.client.security.http_client import HttpResponse
from ottla.registry.errors import RegistryError
from ottla.registry.formats.types import parse
from tests.registry.stored import URL, StoredRegistry

PYTHON = re.compile(r"recursion|Exceeds|sys\.|Error\b|NotJson|int\(\)|unicode")
DEEP = "[" * 100_000
NESTED = '{"items":' * 600 + "{}" + "}" * 600
DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DEEP, "it is nested too deeply"),
        (DIGITS, "it has an integer of more than 4,300 digits"),
        ('{"a": [-' + DIGITS + "]}", "it has an integer of more than 4,300 digits"),
        ("[1e999]", "the number 1e999 is too large"),
        (f"-{DIGITS}.0", "the number -9999999999999999999 is too large"),
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_error_of_odd_json_is_one_line(text: str | bytes, message: str) -> None:
    with pytest.raises(NotJson) as caught:
        parsed_json(text)
    assert str(caught.value) == message


def test_numbers_keep_their_values() -> None:
    for text in ("1.5", "-1e-999", "1e308", "9" * 4_300, '{"a": [1, true, null]}'):
        assert parsed_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (JSON, f'{{"maximum": {DIGITS}}}'),
        (JSON, '{"maximum": 1e999}'),
        (JSON, '{"maximum": NaN}'),
        (JSON, NESTED),
        (AVRO, f'{{"type": "fixed", "name": "A", "size": {DIGITS}}}'),
        (AVRO, '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "double", "default": 1e999}]}'),
        (AVRO, NESTED.replace('"items":', '"type": "array", "items":').replace("{}", '"int"')),
    ],
)
def test_schema_of_odd_json_is_refused_in_words_of_the_registry(kind: str, text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse(kind, text, [])
    assert str(caught.value).startswith(f"Invalid schema of type {kind}: ")
    assert not PYTHON.search(str(caught.value)), str(caught.value)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> RegistryClient:
    monkeypatch.setattr(registry_client, "ask", StoredRegistry().http)
    return RegistryClient(Registry(URL))


@pytest.mark.parametrize(
    "text", [DEEP, DIGITS, '{"a": 1e999}', '{"next":' * 600 + "{}" + "}" * 600], ids=["deep", "digits", "large", "nested"]
)
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (AVRO, '{"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A"], "default": null}]}'),
        (
            JSON,
            '{"properties": {"next": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"not": {"required": ["next"]}}}}',
        ),
        (PROTOBUF, 'syntax = "proto3"; message A { A next = 1; }'),
    ],
)
def test_odd_value_is_refused_in_words_of_the_encoder(client: RegistryClient, kind: str, schema: str, text: str) -> None:
    encoder = registering_encoder(client, "s", schema, kind)
    with pytest.raises(ClientError) as caught:
        encoder.encode(text.encode())
    assert not PYTHON.search(str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        DEEP,
        DIGITS,
        f'{{"maximum": {DIGITS}}}',
        NESTED.replace('"items"', '"type": "array", "items"'),
        '{"not":' * 600 + "{}" + "}" * 600,
    ],
)
@pytest.mark.parametrize("kind", [AVRO, JSON])
def test_odd_schema_of_a_file_or_of_another_registry_is_refused_in_words_of_ottla(
    client: RegistryClient, monkeypatch: pytest.MonkeyPatch, kind: str, schema: str
) -> None:
    with pytest.raises(ClientError) as caught:
        registering_encoder(client, "s", schema, kind)
    assert not PYTHON.search(str(caught.value)), str(caught.value)
    body = json.dumps({"schema": schema, "schemaType": kind}).encode()
    monkeypatch.setattr(registry_client, "ask", lambda *_, **__: HttpResponse(200, "OK", body))
    if kind == AVRO:
        with pytest.raises(ClientError) as caught:
            RegistryDecoder(client).decode(framed(1, b"1"))
        assert not PYTHON.search(str(caught.value)), str(caught.value)
