"""Decodes values in Confluent's wire format to JSON-like values, which the command line and the console show.

The first value of a format imports its library: fastavro for Avro, protobuf for Protobuf, none for JSON Schema. The extra
``ottla[registry]`` installs both.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.client.schema_registry.avro_expansion import check_expansion
from ottla.client.schema_registry.framing import unframed
from ottla.client.schema_registry.registry_client import AVRO, JSON, MAX_SCHEMAS, PROTOBUF, RegisteredSchema, RegistryClient
from ottla.client.schema_registry.strict_json import TOO_DEEP, NotJson, parsed_json

FORMATS: Final = {AVRO: "avro", JSON: "json-schema", PROTOBUF: "protobuf"}
"""The names of schema types that users see."""
MAX_DEPTH: Final = 100
"""Maximum depth of a decoded value."""
Read = Callable[[bytes], Any]
"""Decodes the bytes after a value's header. May raise any exception for bytes that do not match the schema."""


class DecodedValue(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded value. ``value`` has only types of JSON; bytes are ``{"base64": ...}``. ``subject`` is None unless the schema has
    exactly one subject."""

    format: str
    value: Any
    schema_id: int
    subject: str | None = None


class RegistryDecoder:
    """Decodes values of any schema of a registry. Threads may share a decoder."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._readers: dict[int, tuple[str, Read]] = {}

    def decode(self, data: bytes | None) -> DecodedValue | None:
        """Decode a value. Returns None for bytes in another format, and for an id that the registry does not know.

        Raises `ClientError` if the registry does not answer, or a library is not installed.
        """
        split = unframed(data)
        if split is None:
            return None
        reader = self._reader(split.schema_id)
        if reader is None:
            return None
        name, read = reader
        try:
            value = plain(read(split.payload))
        except ClientError:
            raise
        except Exception:
            # The bytes do not match the schema. The libraries raise many types of exceptions.
            return None
        subjects = self._client.subjects(split.schema_id)
        return DecodedValue(
            format=name, value=value, schema_id=split.schema_id, subject=subjects[0] if len(subjects) == 1 else None
        )

    def _reader(self, schema_id: int) -> tuple[str, Read] | None:
        found = self._readers.get(schema_id)
        if found is None:
            schema = self._client.schema(schema_id)
            if schema is None or schema.kind not in FORMATS:
                return None
            if len(self._readers) >= MAX_SCHEMAS:
                self._readers.clear()
            found = self._readers[schema_id] = FORMATS[schema.kind], self._read(schema_id, schema)
        return found

    def _read(self, schema_id: int, schema: RegisteredSchema) -> Read:
        if schema.kind == JSON:
            return json.loads
        try:
            if schema.kind == AVRO:
                return _read_avro(schema, self._client)
            from ottla.client.schema_registry.protobuf_messages import ProtobufMessages

            return ProtobufMessages(schema_id, self._client).read
        except ClientError:
            raise
        except ImportError as error:
            raise missing_library(schema.kind, error) from None
        except Exception as error:
            raise unreadable_schema(f"schema {schema_id} of the registry", error) from None


def unreadable_schema(name: str, error: Exception) -> ClientError:
    """Return the error for a schema that a library cannot read. The libraries raise many types of exceptions."""
    match error:
        case NotJson():
            return ClientError(f"{name} is not JSON ({error})")
        case RecursionError():
            return ClientError(f"{name} cannot be used: {TOO_DEEP}")
        case KeyError():
            # fastavro raises it for a missing attribute.
            return ClientError(f"{name} cannot be read (it has no {error})")
    # The text of a SchemaError is long.
    reason = one_line(getattr(error, "message", None) or error)
    return ClientError(f"{name} cannot be read ({type(error).__name__}: {reason})")


def one_line(reason: object) -> str:
    return " ".join(f"{reason}".split())[:200]


def missing_library(kind: str, error: ImportError) -> ClientError:
    return ClientError(f"values in {FORMATS[kind]} need {error.name}; install it with: pip install 'ottla[registry]'")


def parsed_avro(schema: RegisteredSchema, client: RegistryClient, named: dict[str, Any]) -> Any:
    """Return fastavro's form of a schema and of the schemas to which it refers. Adds the schema's named types to ``named``. Raises
    fastavro's exceptions."""
    from fastavro import parse_schema

    definitions: dict[str, Any] = {}
    for reference in client.referenced(schema).values():
        parse_schema(parsed_json(reference.text), named_schemas=definitions)
    text = schema.text.strip()
    root = parsed_json(text) if text[:1] in '{["' else text
    if not definitions:
        return parse_schema(root, named_schemas=named)
    # fastavro's writer and reader find the types of other schemas only by a record, not by a union, an array, a map or a name.
    return parse_schema(_with_definitions(parse_schema(root, named_schemas=definitions), definitions, set()), named_schemas=named)


def _with_definitions(schema: Any, definitions: dict[str, Any], defined: set[str]) -> Any:
    """Replace the first use of each named type in a schema parsed by fastavro by its definition. ``defined`` contains the types
    that have a definition."""
    if isinstance(schema, list):
        return [_with_definitions(branch, definitions, defined) for branch in schema]
    if isinstance(schema, str):
        if schema not in definitions or schema in defined:
            return schema
        schema = definitions[schema]
    made = {name: of for name, of in schema.items() if not name.startswith("__")}
    if "name" in made:
        if made["name"] in defined:
            # Its place in a referenced schema follows another use.
            return made["name"]
        defined.add(made["name"])
        # The full name of a type without a namespace has no dot, and would get the namespace of the type around it.
        made.setdefault("namespace", "")
    match made["type"]:
        case "record" | "error":
            made["fields"] = [{**of, "type": _with_definitions(of["type"], definitions, defined)} for of in made["fields"]]
        case "array":
            made["items"] = _with_definitions(made["items"], definitions, defined)
        case "map":
            made["values"] = _with_definitions(made["values"], definitions, defined)
    return made


def _read_avro(schema: RegisteredSchema, client: RegistryClient) -> Read:
    from fastavro import schemaless_reader

    named: dict[str, Any] = {}
    writer = parsed_avro(schema, client, named)
    check_expansion(writer, named)

    def read(payload: bytes) -> Any:
        source = io.BytesIO(payload)
        value = schemaless_reader(source, writer, None)
        if source.read(1):
            raise ValueError("bytes are left over")
        return value

    return read


def plain(value: Any, depth: int = 0) -> Any:
    """Convert a value to types of JSON. Raises ValueError for a value that is nested too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {str(name): plain(of, depth + 1) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, depth + 1) for one in value]
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID | datetime.timedelta):
        return str(value)
    return value
