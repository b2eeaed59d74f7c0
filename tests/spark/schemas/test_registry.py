"""Schemas by their ids, and values that contain a schema id, without Spark."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.client.errors import ClientError
from ottla.client.schema_registry.framing import framed
from ottla.client.security.client_config import Secret
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.avro import avro_schema
from ottla.spark.schemas.registry import Decoder, Registry, RegistryClient, client_of, subject_of
from tests.spark.registry_server import RegistryServer, registry_server

pytestmark = pytest.mark.wire

SCHEMA = "id LONG, name STRING"
OLDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "int"}]}
NEWER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}, {"name": "id", "type": "long"}, {"name": "more", "type": "double"}],
}


@pytest.fixture
def served() -> Iterator[tuple[RegistryServer, Registry]]:
    with registry_server() as made:
        yield made


def avro(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), record)
    return out.getvalue()


def test_values_of_several_schemas_are_decoded_to_the_readers_schema(served: tuple[RegistryServer, Registry]) -> None:
    server, registry = served
    older, newer = (server.add(json.dumps(schema)) for schema in (OLDER, NEWER))
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    for _ in range(3):
        assert decoder.decode(framed(older, avro(OLDER, {"id": 7}))) == {"id": 7, "name": None}
        assert decoder.decode(framed(newer, avro(NEWER, {"id": 1 << 40, "name": "n", "more": 1.5}))) == {"id": 1 << 40, "name": "n"}
    assert len(server.asked) == 2


def test_invalid_schema_registry_values_are_decoded_as_none(served: tuple[RegistryServer, Registry]) -> None:
    server, registry = served
    number, other = server.add(json.dumps(OLDER)), server.add("{}", "JSON")
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    good = framed(number, avro(OLDER, {"id": 7}))
    for bad in (None, b"", b"{}", good[:3], good[:5], good + b"x", b"\1" + good[1:], framed(9, good[5:]), framed(other, good[5:])):
        assert decoder.decode(bad) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_random_value_bytes_never_raise_in_the_schema_registry_decoder(
    served: tuple[RegistryServer, Registry], data: bytes
) -> None:
    server, registry = served
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    decoder.decode(data)
    decoder.decode(framed(server.add(json.dumps(NEWER)), data))


@pytest.mark.parametrize(
    "schema",
    [
        "no json",
        json.dumps({"type": "record", "name": "A", "fields": [{"name": "x", "type": "shop.Elsewhere"}]}),
        json.dumps({"type": "what"}),
    ],
)
def test_unreadable_registry_schema_raises(served: tuple[RegistryServer, Registry], schema: str) -> None:
    """Without the error, all values with an unreadable schema would be lost silently."""
    server, registry = served
    number = server.add(schema)
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    for _ in range(2):
        with pytest.raises(PipelineError, match=f"schema {number} of the registry cannot be read"):
            decoder.decode(framed(number, b"x"))


def test_unknown_schema_id_is_requested_again_later(served: tuple[RegistryServer, Registry]) -> None:
    server, registry = served
    now = [0.0]
    decoder = Decoder(RegistryClient(registry, lambda: now[0]), SCHEMA)
    value = framed(100_000, avro(OLDER, {"id": 7}))
    for _ in range(3):
        assert decoder.decode(value) is None
    assert server.add(json.dumps(OLDER)) == 100_000
    now[0] = 59.0
    assert decoder.decode(value) is None
    assert len(server.asked) == 1
    now[0] = 60.0
    assert decoder.decode(value) == {"id": 7, "name": None}


def test_registry_schema_is_requested_once_per_process(served: tuple[RegistryServer, Registry]) -> None:
    server, registry = served
    value = framed(server.add(json.dumps(OLDER)), avro(OLDER, {"id": 7}))
    with ThreadPoolExecutor(8) as pool:
        records = list(pool.map(lambda _: Decoder(client_of(registry), SCHEMA).decode(value), range(16)))
    assert records == [{"id": 7, "name": None}] * 16
    assert len(server.asked) == 1


def test_registry_schema_is_registered_once_per_subject(served: tuple[RegistryServer, Registry]) -> None:
    server, registry = served
    client = RegistryClient(registry)
    numbers = {client.register("a/b-value", avro_schema(SCHEMA)) for _ in range(3)}
    assert [line for line, _ in server.asked] == ["POST /subjects/a%2Fb-value/versions"]
    found = [client.schema(number) for number in numbers]
    assert [schema.text for schema in found if schema] == [avro_schema(SCHEMA)]


@pytest.mark.parametrize(
    ("registry", "header"),
    [
        ({"user": "u", "password": Secret("p")}, "Basic dTpw"),
        ({"token": Secret("abc")}, "Bearer abc"),
        ({}, None),
    ],
)
def test_credentials_are_sent_to_the_schema_registry(
    served: tuple[RegistryServer, Registry], registry: dict[str, Any], header: str | None
) -> None:
    server, where = served
    secured = msgspec.structs.replace(where, **registry)
    RegistryClient(secured).schema(1)
    assert server.asked == [("GET /schemas/ids/1", header)]
    assert "abc" not in repr(secured)


def test_unreachable_schema_registry_is_not_reported_as_an_unknown_schema(served: tuple[RegistryServer, Registry]) -> None:
    server, registry = served
    server.fails_with = 503
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    with pytest.raises(PipelineError, match=r"returned 503 for /schemas/ids/7: .*not today"):
        decoder.decode(framed(7, b""))
    with pytest.raises(PipelineError, match="does not answer"):
        RegistryClient(Registry("http://127.0.0.1:1")).schema(7)
    with pytest.raises(PipelineError, match="must begin with https:// or http://"):
        RegistryClient(Registry("file:///etc")).schema(7)


def test_schema_subjects_and_record_names_follow_confluent() -> None:
    assert subject_of("t") == "t-value"
    assert subject_of("t", is_key=True) == "t-key"
    assert subject_of("t", "shop.Order", strategy="record") == "shop.Order"
    assert subject_of("t", "shop.Order", strategy="topic-record") == "t-shop.Order"
    with pytest.raises(PipelineError, match="needs the record's full name"):
        subject_of("t", strategy="record")
    with pytest.raises(PipelineError, match="strategy 'other' is not one of"):
        subject_of("t", strategy="other")
    with pytest.raises(PipelineError, match="'x DECIMAL'"):
        avro_schema("id LONG, x DECIMAL")


@pytest.mark.parametrize("url", ["https://me:hush@registry:8081", "https://me:hush@[registry"])
def test_password_in_the_schema_registry_url_is_refused_and_hidden(url: str) -> None:
    with pytest.raises(ClientError, match="contains a user or a password") as error:
        Registry(url)
    assert "hush" not in str(error.value)
    assert error.value.__context__ is None


def test_missing_fastavro_is_named_with_the_command_that_installs_it(
    served: tuple[RegistryServer, Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(PipelineError, match=r"Spark's workers cannot import fastavro .* -m pip install fastavro` on each worker"):
        Decoder(RegistryClient(served[1]), SCHEMA)
