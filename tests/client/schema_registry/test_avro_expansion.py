"""Avro schemas with which few bytes become very many objects are refused; ordinary schemas are accepted."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.schema_registry.avro_expansion import check_expansion

fastavro = pytest.importorskip("fastavro")


def record(name: str, *types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{at}", "type": one} for at, one in enumerate(types)]}


def doubled(levels: int) -> dict[str, Any]:
    schema = record("R0", "null")
    for level in range(1, levels):
        schema = record(f"R{level}", schema, f"R{level - 1}")
    return schema


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def check(schema: Any) -> None:
    named: dict[str, Any] = {}
    check_expansion(fastavro.parse_schema(schema, named_schemas=named), named)


@pytest.mark.parametrize(
    "schema",
    [
        array("null"),
        array(record("Empty")),
        array(record("Nulls", *["null"] * 50)),
        array({"type": "fixed", "name": "F", "size": 0}),
        array(record("OneByte", "int", *["null"] * 50)),
        {"type": "map", "values": record("Nulls", *["null"] * 50)},
        record("Deep", ["null", array(array("null"))]),
        ["int", record("Nulls", *["null"] * 50)],
        doubled(200),
    ],
)
def test_avro_schema_with_unlimited_objects_from_few_bytes_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="objects"):
        check(schema)


def test_avro_record_schema_that_contains_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="record R contains itself"):
        check(record("R", "int", "R"))


@pytest.mark.parametrize(
    "schema",
    [
        "null",
        "string",
        record("Empty"),
        record("Wide", *["int"] * 2_000),
        record("Node", "long", ["null", "Node"], array("Node"), {"type": "map", "values": "Node"}),
        array(record("Wrapped", record("Inner", {"type": "long", "logicalType": "timestamp-millis"}))),
        array(["null", {"type": "enum", "name": "E", "symbols": ["A"]}, "string"]),
        {"type": "map", "values": "null"},
    ],
)
def test_ordinary_avro_schema_is_accepted(schema: Any) -> None:
    check(schema)
