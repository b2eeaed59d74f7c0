"""The registry client of `ottla.spark` against the schema registry of an ottla broker, without Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("avro")
pytest.importorskip("grpc_tools")

from fastavro import parse_schema, schemaless_writer

from ottla import Broker
from ottla.client.errors import ClientError
from ottla.client.schema_registry.framing import framed
from ottla.spark.schemas.avro import avro_schema
from ottla.spark.schemas.registry import Decoder, Registry, RegistryClient
from tests.spark.own_registry import ask

pytestmark = [pytest.mark.wire, pytest.mark.full]

SCHEMA = "id LONG, name STRING"
OLDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEWER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "name", "type": "string", "default": ""}, {"name": "id", "type": "long"}],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Broker(schema_registry=True) as broker:
        yield Registry(broker.schema_registry_url)


def register(registry: Registry, subject: str, schema: str, kind: str = "AVRO") -> int:
    number: int = ask(registry, f"/subjects/{subject}/versions", {"schema": schema, "schemaType": kind})["id"]
    return number


def encoded(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), record)
    return out.getvalue()


def test_spark_decoder_reads_values_of_each_version_in_the_brokers_registry(registry: Registry) -> None:
    older, newer = (register(registry, "versions-value", json.dumps(schema)) for schema in (OLDER, NEWER))
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    assert decoder.decode(framed(older, encoded(OLDER, {"id": 7}))) == {"id": 7, "name": None}
    assert decoder.decode(framed(newer, encoded(NEWER, {"id": 1 << 40, "name": "n"}))) == {"id": 1 << 40, "name": "n"}


def test_spark_decoder_returns_none_for_other_schemas_of_the_brokers_registry(registry: Registry) -> None:
    document = register(registry, "json-value", '{"type": "object"}', "JSON")
    decoder = Decoder(RegistryClient(registry), SCHEMA)
    for number in (document, 1_000_000):
        assert decoder.decode(framed(number, b"\x02")) is None


def test_spark_registers_a_schema_once_in_the_brokers_registry(registry: Registry) -> None:
    numbers = {RegistryClient(registry).register("a/b-value", avro_schema(SCHEMA)) for _ in range(2)}
    numbers.add(RegistryClient(registry).register("other-value", avro_schema(SCHEMA)))
    assert len(numbers) == 1, "the registry gives the same schema the same id in each subject"
    assert ask(registry, "/subjects/a%2Fb-value/versions") == [1]
    found = RegistryClient(registry).schema(numbers.pop())
    assert found is not None
    assert json.loads(found.text) == json.loads(avro_schema(SCHEMA))


def test_incompatible_schema_of_spark_is_refused_by_the_brokers_registry(registry: Registry) -> None:
    client = RegistryClient(registry)
    client.register("strict-value", avro_schema("id LONG"))
    with pytest.raises(ClientError, match=r"409.*incompatible"):
        client.register("strict-value", avro_schema("id STRING"))
    assert ask(registry, "/subjects/strict-value/versions") == [1]
