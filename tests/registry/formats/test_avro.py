"""Avro schemas are printed and compared as Avro for Java does with the schemas of ``reference/avro_schemas.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.registry.errors import RegistryError
from ottla.registry.formats.avro_names import AvroError, canonical, self_contained
from ottla.registry.schema_text import NamedText

REFERENCE = Path(__file__).parents[1] / "reference"
SCHEMAS: list[Any] = json.loads((REFERENCE / "avro_schemas.json").read_text())
ANSWERS: list[dict[str, str]] = json.loads((REFERENCE / "avro_answers.json").read_text())


def test_avro_schemas_are_printed_like_by_avro_for_java() -> None:
    for schema, answer in zip(SCHEMAS, ANSWERS, strict=True):
        assert canonical(json.dumps(schema)) == answer["text"]


def test_avro_compatibility_of_each_schema_pair_equals_avro_for_java() -> None:
    pytest.importorskip("avro")
    from ottla.registry.formats.avro_schema import parse_avro

    parsed = [parse_avro(json.dumps(schema), ()) for schema in SCHEMAS]
    assert len(parsed) ** 2 > 3_000
    for reader, answer in zip(parsed, ANSWERS, strict=True):
        row = "".join("0" if reader.unreadable(writer) else "1" for writer in parsed)
        assert row == answer["reads"], reader.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "1",
        '{"type":"record"}',
        '{"type":"record","name":"A"}',
        '{"type":"record","name":"A","fields":[1]}',
        '{"type":"record","name":"A","fields":[{"name":"a"}]}',
        '{"type":"array"}',
        '{"type":"map"}',
        '{"type":5}',
        "[" * 5_000 + "]" * 5_000,
        '["null",' * 500 + '"int"' + "]" * 500,
        json.dumps(
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "record", "name": "A", "fields": []}}]}
        ),
    ],
)
def test_invalid_avro_schema_is_refused_with_a_one_line_error(text: str) -> None:
    pytest.importorskip("avro")
    from ottla.registry.formats.avro_schema import parse_avro

    with pytest.raises(RegistryError) as error:
        parse_avro(text, ())
    assert error.value.code == 42201
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700


def test_referenced_avro_types_are_inlined_once() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    inner = {"type": "record", "name": "In", "namespace": "n", "fields": [{"name": "x", "type": enum}]}
    fields = [{"name": name, "type": kind} for name, kind in (("e", "E"), ("i", "In"), ("j", "n.In"))]
    text = json.dumps({"type": "record", "name": "Out", "namespace": "n", "fields": fields})
    first, second, third = self_contained(text, [json.dumps(inner)])["fields"]
    assert first["type"] == {"type": "enum", "name": "n.E", "symbols": ["A"]}
    assert second["type"]["name"] == "n.In"
    assert second["type"]["fields"][0]["type"] == "n.E"
    assert third["type"] == "n.In"
    assert json.loads(canonical(text)) == json.loads(text.replace('"n.In"', '"In"'))


def test_avro_type_with_the_name_of_a_primitive_type_keeps_its_namespace() -> None:
    fixed = {"type": "fixed", "name": "long", "size": 4}
    fields = [{"name": "a", "type": fixed}, {"name": "b", "type": "n.long"}]
    text = json.dumps({"type": "record", "name": "A", "namespace": "n", "fields": fields})
    assert json.loads(canonical(text))["fields"][1]["type"] == "n.long"


def test_number_of_fields_of_an_avro_schema_is_limited() -> None:
    pytest.importorskip("avro")
    from ottla.registry.formats.avro_schema import MAX_NAMES, parse_avro

    fields = [{"name": f"f{i}", "type": "int"} for i in range(MAX_NAMES)]
    parse_avro(json.dumps({"type": "record", "name": "A", "fields": fields[1:]}), ())
    with pytest.raises(RegistryError, match="more than 2,000 fields"):
        parse_avro(json.dumps({"type": "record", "name": "A", "fields": fields}), ())


def test_unknown_avro_type_is_refused() -> None:
    pytest.importorskip("avro")
    from ottla.registry.formats.avro_schema import parse_avro

    with pytest.raises(RegistryError):
        parse_avro('{"type":"record","name":"A","fields":[{"name":"a","type":"Elsewhere"}]}', ())
    parse_avro(
        '{"type":"record","name":"A","fields":[{"name":"a","type":"Elsewhere"}]}',
        [NamedText(name="Elsewhere", text='{"type":"fixed","name":"Elsewhere","size":1}')],
    )


def test_avro_schema_of_malformed_json_is_refused() -> None:
    with pytest.raises(AvroError):
        canonical('{"type":')


def test_too_deeply_nested_avro_schema_is_refused() -> None:
    with pytest.raises(AvroError, match="nested too deeply"):
        canonical("[" * 100_000)
