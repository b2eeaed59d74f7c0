"""JSON Schema: if the registry finds a reader compatible, a validator accepts all of the writer's values."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from ottla.registry.errors import RegistryError
from ottla.registry.formats import json_compatibility, json_nodes
from ottla.registry.formats.json_schema import parse_json
from ottla.registry.formats.json_text import MAX_DEPTH, canonical
from ottla.registry.formats.types import identity
from ottla.registry.schema_text import NamedText, SchemaText

REFERENCE = Path(__file__).parents[1] / "reference"
SCHEMAS: list[Any] = json.loads((REFERENCE / "json_schemas.json").read_text())
WITHOUT_REFERENCES = [schema for schema in SCHEMAS if "$ref" not in json.dumps(schema)]
VALUES: list[Any] = [
    None, True, 0, 1, 2, 3, 4, 8, 12, 15, 25, -5, 1.5, "", "a", "b", "c", "ab", "ba", "aaaaaaa", "a" * 20,
    [], [1], [1, 1], [1, "x"], [1, 2, 3, 4], ["x"], [1.5], [1, "x", 5], [True],
    {}, {"a": "x"}, {"a": 1}, {"a": 1.5}, {"b": 1}, {"b": "y"}, {"a": "x", "b": 1}, {"a": "x", "b": "y"}, {"a": "x", "c": 1},
    {"a": "x", "z": "w"}, {"a": "x", "x1": 1}, {"a": "x", "x1": "s"},
    {"a": "x", "b": 1, "c": 2, "d": 3}, {"q": 1, "r": 2, "s": 3, "t": 4},
    {"a": {"c": 1}}, {"a": {"c": 1.5}}, {"a": {"c": 1, "d": 2}}, {"a": {"c": "x"}}, {"a": {}},
    {"n": {"v": 1}}, {"n": {"v": 1.5}}, {"n": {"v": 1, "next": {"v": 2}}}, {"n": {"v": 1, "next": {"v": 1.5}}}, {"n": None},
    {"n": {"v": 1, "w": "x"}}, {"n": {"v": 1, "w": 5}}, {"n": 5},
]  # fmt: skip


def _unreadable(reader: Any, writer: Any) -> list[str]:
    return parse_json(json.dumps(reader), ()).unreadable(parse_json(json.dumps(writer), ()))


def test_values_valid_for_a_json_schema_are_valid_for_its_accepted_successor() -> None:
    parsed = [parse_json(json.dumps(schema), ()) for schema in SCHEMAS]
    validators = [Draft7Validator(schema) for schema in SCHEMAS]
    valid = [[validator.is_valid(value) for value in VALUES] for validator in validators]
    unsound, accepted = [], 0
    for r, reader in enumerate(parsed):
        for w, writer in enumerate(parsed):
            if reader.unreadable(writer):
                continue
            accepted += 1
            lost = [value for value, old, new in zip(VALUES, valid[w], valid[r], strict=True) if old and not new]
            # A deserializer may fill in the default of a required property, so such a property is compared like an optional one. A
            # validator fills in no defaults.
            has_default = '"default"' in reader.text
            if lost and not has_default:
                unsound.append((reader.text, writer.text, lost[:2]))
    assert unsound == [], unsound
    assert accepted > 300


def test_json_schema_is_compatible_with_itself() -> None:
    for schema in SCHEMAS:
        assert _unreadable(schema, schema) == []


OBJECT, STRING = {"type": "object"}, {"type": "string"}


@pytest.mark.parametrize(
    ("reader", "writer", "is_accepted"),
    [
        # Add an optional property to an open object, and remove one.
        ({**OBJECT, "properties": {"a": STRING}}, OBJECT, False),
        (OBJECT, {**OBJECT, "properties": {"a": STRING}}, True),
        # Add an optional property to a closed object, and remove one.
        (
            {**OBJECT, "properties": {"a": STRING}, "additionalProperties": False},
            {**OBJECT, "additionalProperties": False},
            True,
        ),
        (
            {**OBJECT, "additionalProperties": False},
            {**OBJECT, "properties": {"a": STRING}, "additionalProperties": False},
            False,
        ),
        ({"type": "number"}, {"type": "integer"}, True),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"type": ["string", "null"]}, STRING, True),
        (STRING, {"type": ["string", "null"]}, False),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, True),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, False),
        ({"oneOf": [STRING, {"type": "integer"}]}, {"oneOf": [{"type": "integer"}]}, True),
        ({"not": {"type": "integer"}}, {"not": {"type": "number"}}, True),
        ({"not": {"type": "number"}}, {"not": {"type": "integer"}}, False),
        (True, STRING, True),
        (STRING, False, True),
    ],
)
def test_compatibility_of_json_schemas_follows_confluents_documentation(reader: Any, writer: Any, is_accepted: bool) -> None:
    assert (_unreadable(reader, writer) == []) is is_accepted


@pytest.mark.parametrize("branch", ["then", "else"])
def test_json_schema_incompatibility_names_the_branch_of_a_condition(branch: str) -> None:
    wide, narrow = {"type": ["string", "integer"]}, {"type": "string"}
    condition = {"if": {"const": 1}, "then": wide, "else": wide}
    assert [reason.partition(":")[0] for reason in _unreadable({**condition, branch: narrow}, condition)] == [f"#/{branch}"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        '"string"',
        "[]",
        '{"type":"what"}',
        '{"type":["string",5]}',
        '{"properties":[]}',
        '{"$ref":"#/definitions/none"}',
        '{"$ref":"http://example.com/other.json"}',
        '{"$ref":"#"}',
        '{"anyOf":[{"$ref":"#"}]}',
        '{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}',
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"not":' * (MAX_DEPTH + 1) + "true" + "}" * (MAX_DEPTH + 1),
    ],
)
def test_invalid_json_schema_is_refused_with_a_one_line_error(text: str) -> None:
    with pytest.raises(RegistryError) as error:
        parse_json(text, ())
    assert error.value.code == 42201
    assert "\n" not in str(error.value)


def _chain(length: int) -> str:
    """Return a JSON schema of flat definitions, each with a property of the next definition's type."""
    definitions = {f"d{n}": {"properties": {"a": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(length)}
    return json.dumps({"$ref": "#/definitions/d0", "definitions": {**definitions, f"d{length}": {"type": "string"}}})


@pytest.mark.parametrize(
    "text",
    [
        '{"not":' * MAX_DEPTH + "true" + "}" * MAX_DEPTH,
        '{"anyOf":[' * (MAX_DEPTH // 2 - 1) + "true" + "]}" * (MAX_DEPTH // 2 - 1),
        '{"properties":{"a":' * (MAX_DEPTH // 2) + "true" + "}}" * (MAX_DEPTH // 2),
        '{"anyOf":[{"$ref":"#"}]}',
        _chain(20),
        _chain(2_000),
    ],
)
def test_json_schema_depth_limit_is_below_pythons_recursion_limit(text: str) -> None:
    """Inside a Rust library a RecursionError becomes a panic, which the registry's error handlers do not catch."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 600)
    try:
        parsed = parse_json(text, ())
        parsed.unreadable(parse_json(text.replace("true", "false"), ()))
    except RegistryError as error:
        assert "recursion" not in str(error)
    finally:
        sys.setrecursionlimit(before)


def test_too_deeply_nested_json_schema_is_compared_as_text() -> None:
    deep = '{"a":' * 5_000 + "1" + "}" * 5_000
    assert identity(SchemaText(kind="JSON", text=deep)) != identity(SchemaText(kind="JSON", text=deep + " "))
    assert identity(SchemaText(kind="JSON", text="[ 1]")) == identity(SchemaText(kind="JSON", text="[1 ]"))
    assert canonical('{"a":"[[[[{{{\\"[["}') == '{"a":"[[[[{{{\\"[["}'


def test_json_schema_references_are_resolved_by_name() -> None:
    address = NamedText(name="address.json", text='{"type":"object","properties":{"street":{"type":"string"}}}')
    other = NamedText(name="address.json", text='{"type":"object","properties":{"street":{"type":"integer"}}}')
    text = '{"type":"object","properties":{"to":{"$ref":"address.json#/properties/street"}}}'
    assert parse_json(text, [address]).unreadable(parse_json(text, [address])) == []
    assert parse_json(text, [address]).unreadable(parse_json(text, [other])) != []


def test_comparison_of_wide_json_schema_unions_ends_in_bounded_steps() -> None:
    union: Any = {"type": "string"}
    for depth in range(3):
        union = {"oneOf": [{"type": "object", "properties": {"p": union, f"q{i}": {"const": [depth, i]}}} for i in range(8)]}
    with pytest.raises(RegistryError):
        _unreadable(union, {**union, "title": "other"})


@settings(max_examples=15)
@given(
    st.recursive(
        st.sampled_from(WITHOUT_REFERENCES), lambda inner: st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner), max_leaves=4
    )
)
def test_comparison_of_random_json_schemas_raises_no_error(schema: Any) -> None:
    for other in SCHEMAS[::15]:
        _unreadable(schema, other)
        _unreadable(other, schema)


def test_canonical_json_schema_keeps_the_order_of_keys() -> None:
    assert canonical('{ "b": 1.0, "a": "é" }') == '{"b":1.0,"a":"é"}'
    assert parse_json('{ "title": "t", "type": "object" }', ()).normalized == '{"title":"t","type":"object"}'


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "http://example.com/other.json", "other.json#/a"])
def test_json_schema_error_names_a_reference_that_the_client_did_not_send(uri: str) -> None:
    with pytest.raises(RegistryError, match=rf"JSON: '{uri}' is not among the references of the schema"):
        parse_json(json.dumps({"$ref": uri}), [])


def test_json_schema_error_for_a_long_reference_is_short() -> None:
    with pytest.raises(RegistryError) as error:
        parse_json(json.dumps({"$ref": "http://" + "x" * 100_000}), [])
    assert len(str(error.value)) < 400


def chain(keyword: str, length: int = 24) -> str:
    """A short schema in which each definition refers to the next one twice, so that each definition doubles the number of nodes."""
    definitions = {f"d{n}": {keyword: [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(length)}
    return json.dumps({"definitions": {**definitions, f"d{length}": {"type": "string"}}, "$ref": "#/definitions/d0"})


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_chained_json_schema_definitions_take_a_limited_number_of_steps(keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_nodes, "MAX_NODES", 500)
    steps = []
    parts = json_nodes._parts

    def counted(*given: Any) -> Any:
        steps.append(1)
        return parts(*given)

    monkeypatch.setattr(json_nodes, "_parts", counted)
    with pytest.raises(RegistryError, match="more than 500 nodes after its references are followed"):
        parse_json(chain(keyword), [])
    assert len(steps) <= 500
    assert parse_json(chain(keyword, 5), []).node.parts


def test_node_limit_of_json_schemas_applies_to_each_comparison_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_nodes, "MAX_NODES", 500)
    properties = {f"p{n}": {"type": "string"} for n in range(200)}
    schema = parse_json(json.dumps({"type": "object", "properties": properties}), [])
    for _ in range(5):
        assert schema.unreadable(schema) == []


def test_json_schemas_with_many_alternatives_are_too_complex_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before alternatives are compared, each is checked for equality with all others."""
    monkeypatch.setattr(json_compatibility, "MAX_EQUALITIES", 1_000)
    union = parse_json(json.dumps({"oneOf": [{"const": n} for n in range(200)]}), [])
    with pytest.raises(RegistryError, match="at most 1,000 pairs of alternatives are allowed"):
        union.unreadable(union)
