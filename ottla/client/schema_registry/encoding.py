"""Encodes JSON values in Confluent's wire format, by a registered schema."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, Final

from ottla.arguments import BadArgument
from ottla.client.errors import ClientError
from ottla.client.schema_registry.decoding import FORMATS, missing_library, one_line, parsed_avro, unreadable_schema
from ottla.client.schema_registry.framing import framed
from ottla.client.schema_registry.registry_admin import RegistryAdmin, SubjectVersion
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, RegisteredSchema, RegistryClient
from ottla.client.schema_registry.strict_json import TOO_DEEP, NotJson, parsed_json

KINDS: Final = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
"""The schema type for each extension of a schema file."""
VALUE: Final = "value"
SHOWN_CHARACTERS: Final = 60
"""Maximum number of characters of a value in an error."""
Write = Callable[[Any], bytes]
"""Encodes a JSON-like value. May raise any exception for a value that does not match the schema."""


def kind_of(file: PurePath) -> str:
    """Return the type of the schema in a file. Raises `ClientError`."""
    kind = KINDS.get(file.suffix.lower())
    if kind is None:
        endings = ", ".join(f"{ending} ({FORMATS[of]})" for ending, of in KINDS.items())
        raise ClientError(f"{file}: the name of a schema file must end with {endings}")
    return kind


class RegistryEncoder:
    """Encodes values by a registered schema, with a function of `_usable_writer`. ``part`` is ``value`` or ``key``, for errors."""

    def __init__(self, schema_id: int, write: Write, part: str = VALUE) -> None:
        self._schema_id, self._write, self._part = schema_id, write, part

    def encode(self, text: bytes) -> bytes:
        """Encode a JSON text. Raises `ClientError`."""
        try:
            value = parsed_json(text)
        except NotJson as error:
            raise ClientError(f"a {self._part} is not JSON ({error}): {_shown(text)}") from None
        try:
            return framed(self._schema_id, self._write(value))
        except RecursionError:
            raise ClientError(f"a {self._part} cannot be encoded ({TOO_DEEP}): {_shown(text)}") from None
        except Exception as error:
            # The libraries raise many types of exceptions for a value that does not match the schema.
            reason = one_line(error) or type(error).__name__
            raise ClientError(f"a {self._part} does not match the schema ({reason}): {_shown(text)}") from None


def registering_encoder(client: RegistryClient, subject: str, text: str, kind: str) -> RegistryEncoder:
    """Register a schema under a subject, and return its encoder. An Avro or JSON schema that cannot be used is not registered.
    Raises `ClientError`."""
    schema = RegisteredSchema(text=text, kind=kind)
    if kind == PROTOBUF:
        # The registry compiles the schema and returns its descriptor by the schema id.
        schema_id = client.register(subject, text, kind)
        return RegistryEncoder(schema_id, _usable_writer(client, schema_id, schema))
    write = _usable_writer(client, None, schema)
    return RegistryEncoder(client.register(subject, text, kind), write)


def version_encoder(
    client: RegistryClient, subject: str, version: int | None, *, part: str = VALUE
) -> tuple[SubjectVersion, RegistryEncoder]:
    """Return a version of a subject, by default the latest, with its encoder. Raises `ClientError`."""
    admin = RegistryAdmin(client)
    found = admin.version(subject, version)
    if found is None:
        what = "version" if version is None else f"version {version}"
        raise ClientError(f"the registry at {admin.url} has no {what} of subject {subject!r}; register the schema first")
    return found, RegistryEncoder(found.id, _usable_writer(client, found.id, found.schema), part)


def _usable_writer(client: RegistryClient, schema_id: int | None, schema: RegisteredSchema) -> Write:
    """Return the function that encodes values by a schema; ``schema_id`` is None before its registration. Raises `ClientError` for
    a schema that cannot be used."""
    name = "the schema" if schema_id is None else f"schema {schema_id} of the registry"
    try:
        return _writer(client, schema_id, schema)
    except ClientError:
        raise
    except ImportError as error:
        raise missing_library(schema.kind, error) from None
    except BadArgument as error:
        # The schema may be valid: google-re2 is missing, or does not support one of its expressions.
        raise ClientError(f"{name} cannot be used: {one_line(error)}") from None
    except Exception as error:
        raise unreadable_schema(name, error) from None


def _writer(client: RegistryClient, schema_id: int | None, schema: RegisteredSchema) -> Write:
    if schema.kind == PROTOBUF:
        assert schema_id is not None
        from ottla.client.schema_registry.protobuf_messages import ProtobufMessages

        return ProtobufMessages(schema_id, client).written
    if schema.kind == JSON:
        return _json_writer(schema, client)
    return _avro_writer(schema, client)


def _avro_writer(schema: RegisteredSchema, client: RegistryClient) -> Write:
    from fastavro import schemaless_writer
    from fastavro.validation import ValidationError, validate

    parsed = parsed_avro(schema, client, {})

    def write(value: Any) -> bytes:
        datum = _with_bytes(value)
        # The writer itself cuts fractions, and writes integers that are too large for the type.
        try:
            validate(datum, parsed)
        except ValidationError as error:
            raise ValueError(_in_words(error.errors)) from None
        out = io.BytesIO()
        schemaless_writer(out, parsed, datum, strict_allow_default=True)
        return out.getvalue()

    return write


def _in_words(errors: Sequence[Any]) -> str:
    """Return the text of fastavro's errors without types of Python. For a union, there is an error for each of its schemas."""
    first = errors[0]
    kinds = [error.schema for error in errors if error.field == first.field]
    names = [(kind.get("name") or kind.get("type")) if isinstance(kind, dict) else kind for kind in kinds]
    found = json.dumps(first.datum, ensure_ascii=False, default=lambda data: {"base64": base64.b64encode(data).decode()})
    return f"{first.field or 'the value'} is {found[:SHOWN_CHARACTERS]}, expected {' or '.join(map(str, names))}"


def _json_writer(schema: RegisteredSchema, client: RegistryClient) -> Write:
    # Imported only for a JSON Schema, because the module needs jsonschema, a package of the extra ``ottla[registry]``.
    from ottla.client.schema_registry.json_validation import validator

    checked = validator(schema, client.referenced(schema))

    def write(value: Any) -> bytes:
        error = next(checked.iter_errors(value), None)
        if error is not None:
            raise ValueError(f"at {error.json_path}: {error.message}")
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    return write


def _with_bytes(value: Any) -> Any:
    """Replace each ``{"base64": ...}``, the JSON form of bytes, by bytes."""
    if isinstance(value, dict):
        if value.keys() == {"base64"} and isinstance(value["base64"], str):
            try:
                return base64.b64decode(value["base64"], validate=True)
            except binascii.Error:
                return value
        return {name: _with_bytes(of) for name, of in value.items()}
    return [_with_bytes(one) for one in value] if isinstance(value, list) else value


def _shown(text: bytes) -> str:
    return text[:SHOWN_CHARACTERS].decode(errors="replace")
