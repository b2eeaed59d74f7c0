"""Values that are encoded by schemas of a registry, which has neither a broker nor a server."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.schema_registry import registry_client
from ottla.client.schema_registry.decoding import RegistryDecoder
from ottla.client.schema_registry.encoding import registering_encoder, version_encoder
from ottla.client.schema_registry.json_validation import validator
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, RegisteredSchema, Registry, RegistryClient
from tests.registry.stored import URL, StoredRegistry, record


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> StoredRegistry:
    made = StoredRegistry()
    monkeypatch.setattr(registry_client, "ask", made.http)
    return made


@pytest.fixture
def client(stored: StoredRegistry) -> RegistryClient:
    return RegistryClient(Registry(URL))


AVRO_TYPES = json.dumps(
    record("Order", "id:long", "small:int=0", 'note:string=""', "price:double=0", "is_paid:boolean=false", 'raw:bytes=""')
)
JSON_TYPES = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
PROTOBUF_TYPES = 'syntax = "proto3"; message Order { int64 id = 1; }'


@pytest.mark.parametrize(
    ("kind", "schema", "value", "expected"),
    [
        (AVRO, '"string"', "a", "a"),
        (AVRO, AVRO_TYPES, {"id": 2**62, "price": 1, "raw": {"base64": "AAE="}}, None),
        (JSON, JSON_TYPES, {"id": 7, "more": [1]}, {"id": 7, "more": [1]}),
        (PROTOBUF, PROTOBUF_TYPES, {"id": 7}, {"id": "7"}),
    ],
)
def test_encoded_value_is_decoded_to_the_same_value(
    client: RegistryClient, stored: StoredRegistry, kind: str, schema: str, value: Any, expected: Any
) -> None:
    stored.register("s", schema, schemaType=kind)
    version, encoder = version_encoder(client, "s", None)
    found = RegistryDecoder(client).decode(encoder.encode(json.dumps(value).encode()))
    assert found is not None
    assert (version.version, found.schema_id) == (1, 1)
    expected = expected or {"small": 0, "note": "", "is_paid": False, **value}
    assert found.value == expected


@pytest.mark.parametrize(
    ("kind", "schema", "text", "reason"),
    [
        (AVRO, AVRO_TYPES, '{"id": 1.5}', "does not match the schema (Order.id is 1.5, expected long)"),
        (AVRO, AVRO_TYPES, '{"id": true}', "does not match the schema"),
        (AVRO, AVRO_TYPES, '{"id": 1, "small": 2147483648}', "does not match the schema"),
        (AVRO, AVRO_TYPES, '{"id": 9223372036854775808}', "does not match the schema"),
        (AVRO, AVRO_TYPES, '{"id": 1, "unknown": 1}', "does not match the schema"),
        (AVRO, AVRO_TYPES, "null", "does not match the schema (the value is null, expected Order)"),
        (AVRO, '["null", "long"]', '"x"', 'does not match the schema (the value is "x", expected null or long)'),
        (AVRO, '{"type": "array", "items": "string"}', '[{"base64": "AAE="}]', 'is {"base64": "AAE="}, expected string'),
        (AVRO, AVRO_TYPES, '{"id": 1, "raw": "text"}', "does not match the schema"),
        (AVRO, AVRO_TYPES, "{}", "does not match the schema"),
        (AVRO, AVRO_TYPES, '{"id": 1', "is not JSON"),
        (AVRO, AVRO_TYPES, '{"id": 1, "price": NaN}', "is not JSON"),
        (JSON, "{}", "[Infinity]", "is not JSON"),
        (JSON, JSON_TYPES, '{"id": "x"}', "at $.id: 'x' is not of type 'integer'"),
        (JSON, JSON_TYPES, "{}", "at $: 'id' is a required property"),
        (JSON, "{}", '"\\ud800"', "does not match the schema"),
        (JSON, "false", "1", "does not match the schema"),
        (PROTOBUF, PROTOBUF_TYPES, '{"id": "x"}', "does not match the schema"),
        (PROTOBUF, PROTOBUF_TYPES, '{"no": 1}', "does not match the schema"),
        (PROTOBUF, PROTOBUF_TYPES, "[1]", "does not match the schema"),
        (JSON, "{}", "[" * 100_000, "is not JSON"),
        (AVRO, '"string"', "", "is not JSON"),
    ],
)
def test_value_that_does_not_fit_the_schema_is_refused_in_one_line(
    client: RegistryClient, kind: str, schema: str, text: str, reason: str
) -> None:
    encoder = registering_encoder(client, "s", schema, kind)
    with pytest.raises(ClientError) as caught:
        encoder.encode(text.encode())
    assert reason in str(caught.value)
    assert str(caught.value).startswith("a value ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_chosen_version_encodes_the_value_and_errors_name_the_key(client: RegistryClient, stored: StoredRegistry) -> None:
    stored.ask("PUT", "/config", {"compatibility": "NONE"})
    stored.register("s", '"string"')
    stored.register("s", '"long"')
    assert version_encoder(client, "s", 1)[1].encode(b'"a"') == b"\0\0\0\0\1\2a"
    version, encoder = version_encoder(client, "s", None, part="key")
    assert (version.version, encoder.encode(b"1")) == (2, b"\0\0\0\0\2\2")
    with pytest.raises(ClientError, match="a key does not match the schema"):
        encoder.encode(b'"a"')


@pytest.mark.parametrize(
    ("subject", "version", "message"), [("s", 7, "has no version 7 of subject 's'"), ("t", None, "no version of")]
)
def test_unknown_version_of_a_subject_cannot_encode(
    client: RegistryClient, stored: StoredRegistry, subject: str, version: int | None, message: str
) -> None:
    stored.register("s", '"string"')
    with pytest.raises(ClientError, match=message):
        version_encoder(client, subject, version)


def test_values_are_encoded_by_schemas_with_references(client: RegistryClient, stored: StoredRegistry) -> None:
    stored.register("customer", json.dumps(record("Customer", "name:string")))
    order = {**record("Order"), "fields": [{"name": "by", "type": "Customer"}]}
    stored.register("order", order, references=[{"name": "Customer", "subject": "customer", "version": 1}])
    value = {"by": {"name": "a"}}
    _, encoder = version_encoder(client, "order", None)
    found = RegistryDecoder(client).decode(encoder.encode(json.dumps(value).encode()))
    assert found is not None and found.value == value
    with pytest.raises(ClientError, match="does not match the schema"):
        encoder.encode(b'{"by": {"name": 1}}')


@pytest.mark.parametrize("base", ["", "http://a/order.json"])
def test_json_schema_is_validated_with_its_references(client: RegistryClient, stored: StoredRegistry, base: str) -> None:
    stored.register("customer", '{"type": "string"}', schemaType=JSON)
    order = {"properties": {"by": {"$ref": "customer.json"}}, **({"$id": base} if base else {})}
    references = [{"name": "customer.json", "subject": "customer", "version": 1}]
    stored.register("order", order, schemaType=JSON, references=references)
    _, encoder = version_encoder(client, "order", None)
    assert encoder.encode(b'{"by": "a"}').endswith(b'{"by":"a"}')
    with pytest.raises(ClientError, match=r"at \$\.by: 1 is not of type 'string'"):
        encoder.encode(b'{"by": 1}')


def test_json_schema_with_an_unknown_uri_opens_no_connection(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any, **__: Any) -> None:
        raise AssertionError("a schema must not make ottla connect to a host")

    encoder = registering_encoder(client, "s", '{"properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}}', JSON)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ClientError, match=r"does not match the schema \(.*127\.0\.0\.1:1/x\.json"):
        encoder.encode(b'{"a": 1}')


EXPONENTIAL = "^(a+)+$"
META = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": EXPONENTIAL}, "a" * 40 + "!"),
        ({"$schema": META, "items": {"$schema": META, "pattern": EXPONENTIAL}}, ["a" * 40 + "!"]),
        ({"$schema": META, "properties": {"next": {"$ref": "#"}, "a": {"pattern": EXPONENTIAL}}}, {"next": {"a": "a" * 40 + "!"}}),
        ({"propertyNames": {"pattern": EXPONENTIAL}}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {EXPONENTIAL: {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"x": 1}),
        ({"additionalProperties": {"type": "string"}}, {"x": 1}),
        ({"pattern": "^.{3}$"}, "äö"),
    ],
)
def test_expressions_of_a_json_schema_take_linear_time(client: RegistryClient, schema: Any, value: Any) -> None:
    encoder = registering_encoder(client, "s", json.dumps(schema), JSON)
    with pytest.raises(ClientError, match="a value does not match the schema"):
        encoder.encode(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^.{3}$"}, "äöü"),
        ({"patternProperties": {"^x": {}}, "properties": {"a": {}}, "additionalProperties": False}, {"x1": 1, "a": 2}),
        ({"additionalProperties": True}, {"b": 1}),
        ({"properties": {"$schema": {"type": "string"}}}, {"$schema": "a"}),
        ({"uniqueItems": True}, [1, True, "1", None, [1], [True], {"a": 1}, {"a": True}]),
        pytest.param({"uniqueItems": True}, [{"n": number} for number in range(20_000)], id="20,000 different objects"),
    ],
)
def test_values_that_match_a_json_schema_are_written(client: RegistryClient, schema: Any, value: Any) -> None:
    written = registering_encoder(client, "s", json.dumps(schema), JSON).encode(json.dumps(value).encode())
    assert json.loads(written[5:]) == value


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"pattern": "^(?=x)"}, "the schema cannot be used: .*is not a regular expression of RE2"),
        ({"properties": {"pattern": {"items": [{"pattern": "(?=x)"}]}}}, "is not a regular expression of RE2"),
        ({"$defs": {"default": {"patternProperties": {"(?=x)": {}}}}}, "is not a regular expression of RE2"),
        ({"allOf": [{"patternProperties": {"a": {}}}, {"unevaluatedProperties": False}]}, "are not supported"),
        ({"type": 5}, "the schema cannot be read .*5 is not valid"),
        ({"properties": {"a": {"pattern": 1}}}, "the schema cannot be read .*1 is not of type 'string'"),
        (7, "the schema cannot be read .*7 is not of type"),
    ],
)
def test_unusable_json_schema_is_refused_before_it_is_registered(
    client: RegistryClient, stored: StoredRegistry, schema: Any, reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        registering_encoder(client, "s", json.dumps(schema), JSON)
    assert stored.log.records == []


def test_avro_schema_that_cannot_be_read_is_not_registered(client: RegistryClient, stored: StoredRegistry) -> None:
    with pytest.raises(ClientError, match=r"the schema cannot be read .*UnknownType: Missing"):
        registering_encoder(client, "s", '["null", "Missing"]', AVRO)
    assert stored.log.records == []


def test_unsupported_expression_of_a_referenced_json_schema_is_refused(client: RegistryClient, stored: StoredRegistry) -> None:
    stored.register("other", {"pattern": "(?=x)"}, schemaType=JSON)
    references = [{"name": "other.json", "subject": "other", "version": 1}]
    stored.register("s", {"items": {"$ref": "other.json"}}, schemaType=JSON, references=references)
    with pytest.raises(ClientError, match=r"schema 2 of the registry cannot be used: .*is not a regular expression of RE2"):
        version_encoder(client, "s", None)


def test_missing_re2_is_reported_before_a_value_is_encoded(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ClientError, match="the schema cannot be used: regular expressions need google-re2"):
        registering_encoder(client, "s", '{"pattern": "a"}', JSON)


def test_values_in_a_json_schema_are_not_taken_for_expressions(client: RegistryClient) -> None:
    schema = {"default": {"pattern": "(?=x)"}, "enum": [{"pattern": "(?=x)"}], "properties": {"pattern": {"type": "string"}}}
    assert registering_encoder(client, "s", json.dumps(schema), JSON).encode(b'{"pattern": "(?=x)"}')


@pytest.mark.parametrize(("root", "referenced"), [("unevaluatedProperties", "patternProperties"), ("patternProperties", "allOf")])
def test_json_schema_with_expressions_for_unevaluated_properties_of_another_document_is_refused(
    client: RegistryClient, stored: StoredRegistry, root: str, referenced: str
) -> None:
    keywords = {
        "patternProperties": {EXPONENTIAL: {}},
        "unevaluatedProperties": False,
        "allOf": [{"unevaluatedProperties": False}],
    }
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    stored.register("other", {**draft, referenced: keywords[referenced]}, schemaType=JSON)
    schema = {**draft, "$ref": "other.json", root: keywords[root]}
    references = [{"name": "other.json", "subject": "other", "version": 1}]
    stored.register("s", schema, schemaType=JSON, references=references)
    with pytest.raises(ClientError, match="patternProperties and unevaluatedProperties in a schema and its references"):
        version_encoder(client, "s", None)


@pytest.mark.parametrize("value", [[1, 1.0], [{"a": 1, "b": [2]}, {"b": [2], "a": 1}], [None, None]])
def test_equal_items_are_refused_by_unique_items_of_a_json_schema(client: RegistryClient, value: Any) -> None:
    encoder = registering_encoder(client, "s", '{"uniqueItems": true}', JSON)
    with pytest.raises(ClientError, match="the array has equal items"):
        encoder.encode(json.dumps(value).encode())


def test_expressions_of_a_json_schema_that_refers_to_a_metaschema_take_linear_time() -> None:
    """The metaschema refers back to the root schema by ``$dynamicRef``."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    root = {"$schema": draft, "$id": "http://a/b", "$dynamicAnchor": "meta", "allOf": [{"$ref": draft}]}
    # RE2 accepts the character class, and Python's re does not.
    schema = {**root, "properties": {"properties": {}, "a": {"pattern": r"^\pL$"}}}
    checked = validator(RegisteredSchema(text=json.dumps(schema), kind=JSON), {})
    assert checked.is_valid({"properties": {"p": {"a": "x"}}})
    assert not checked.is_valid({"properties": {"p": {"a": "1"}}})


@pytest.mark.parametrize("dialect", ["http://a/unknown", "https://json-schema.org/draft/2020-12/schema", META])
def test_dialect_of_a_json_schema_may_be_unknown_or_differ_from_that_of_a_reference(dialect: str) -> None:
    other = {"$schema": dialect, "$defs": {"a": {"$schema": dialect, "type": "string"}}, "items": {"$ref": "#/$defs/a"}}
    checked = validator(
        RegisteredSchema(text=json.dumps({**other, "items": {"$ref": "other.json"}}), kind=JSON),
        {"other.json": RegisteredSchema(text=json.dumps(other), kind=JSON)},
    )
    assert checked.is_valid([["a"]])
    assert not checked.is_valid([[1]])


def test_member_named_schema_of_a_constant_is_compared(client: RegistryClient) -> None:
    encoder = registering_encoder(client, "s", '{"const": {"$schema": "a"}}', JSON)
    assert encoder.encode(b'{"$schema": "a"}').endswith(b'{"$schema":"a"}')


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (["null", "c.A"], {"n": 1, "next": {"n": 2, "next": None}}),
        (["c.A", "c.B", "string"], {"a": {"n": 1, "next": None}, "kind": "X"}),
        (["c.B", "c.A"], {"n": 1, "next": None}),
        (["c.Kind", "c.B"], {"a": {"n": 1, "next": None}, "kind": "X"}),
        ("c.A", {"n": 1, "next": None}),
        ({"type": "array", "items": "c.A"}, [{"n": 1, "next": None}]),
        ({"type": "map", "values": ["c.B", "c.A"]}, {"x": {"a": {"n": 1, "next": None}, "kind": "X"}, "y": {"n": 2, "next": None}}),
        ({**record("Root"), "fields": [{"name": "a", "type": "c.A"}, {"name": "b", "type": ["null", "c.B"]}]}, None),
    ],
)
def test_avro_schema_of_referenced_types_encodes_and_decodes(
    client: RegistryClient, stored: StoredRegistry, schema: Any, value: Any
) -> None:
    fields = [{"name": "n", "type": "long"}, {"name": "next", "type": ["null", "A"]}]
    stored.register("a", {**record("c.A"), "fields": fields})
    references = [{"name": "c.A", "subject": "a", "version": 1}]
    kind = {"type": "enum", "name": "Kind", "symbols": ["X"]}
    stored.register(
        "b",
        {**record("c.B"), "fields": [{"name": "a", "type": "A"}, {"name": "kind", "type": kind, "default": "X"}]},
        references=references,
    )
    references.append({"name": "c.B", "subject": "b", "version": 1})
    stored.register("s", json.dumps(schema), references=references)
    value = value or {"a": {"n": 1, "next": None}, "b": {"a": {"n": 1, "next": None}, "kind": "X"}}
    _, encoder = version_encoder(client, "s", None)
    found = RegistryDecoder(client).decode(encoder.encode(json.dumps(value).encode()))
    assert found is not None and found.value == value
    with pytest.raises(ClientError, match="does not match the schema"):
        encoder.encode(b'{"n": "x"}')
