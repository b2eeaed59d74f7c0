"""Encodes JSON values in Confluent's wire format, by a schema that it registers."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

from ottla.client.errors import ClientError
from ottla.client.schema_registry.decoding import FORMATS, missing_library, parsed_avro
from ottla.client.schema_registry.framing import framed
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, RegisteredSchema, RegistryClient

KINDS: Final = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
"""The schema type for each extension of a schema file."""
Write = Callable[[Any], bytes]


def kind_of(file: PurePath) -> str:
    """Return the type of the schema in a file. Raises `ClientError`."""
    kind = KINDS.get(file.suffix.lower())
    if kind is None:
        endings = ", ".join(f"{ending} ({FORMATS[of]})" for ending, of in KINDS.items())
        raise ClientError(f"{file}: the name of a schema file must end with {endings}")
    return kind


class RegistryEncoder:
    """Encodes values by a schema. The constructor registers the schema under a subject, and raises `ClientError`."""

    def __init__(self, client: RegistryClient, subject: str, text: str, kind: str) -> None:
        self.schema_id = client.register(subject, text, kind)
        try:
            self._write = _writer(client, self.schema_id, RegisteredSchema(text=text, kind=kind))
        except ImportError as error:
            raise missing_library(kind, error) from None

    def encode(self, text: bytes) -> bytes:
        """Encode a JSON text. Raises `ClientError`."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ClientError(f"a value is not JSON ({error}): {_shown(text)}") from None
        try:
            return framed(self.schema_id, self._write(value))
        except ClientError:
            raise
        except Exception as error:
            # The libraries raise many types of exceptions for a value that does not match the schema.
            reason = " ".join(f"{error}".split())[:200] or type(error).__name__
            raise ClientError(f"a value does not match the schema ({reason}): {_shown(text)}") from None


def _writer(client: RegistryClient, schema_id: int, schema: RegisteredSchema) -> Write:
    if schema.kind == PROTOBUF:
        from ottla.client.schema_registry.protobuf_messages import ProtobufMessages

        return ProtobufMessages(schema_id, client).written
    if schema.kind == JSON:
        return _json_writer(schema)
    from fastavro import schemaless_writer

    parsed = parsed_avro(schema, client, {})

    def write(value: Any) -> bytes:
        out = io.BytesIO()
        schemaless_writer(out, parsed, _with_bytes(value), strict_allow_default=True)
        return out.getvalue()

    return write


def _json_writer(schema: RegisteredSchema) -> Write:
    from jsonschema.validators import Draft7Validator, validator_for

    loaded = json.loads(schema.text)
    validator = validator_for(loaded, default=Draft7Validator)(loaded)

    def write(value: Any) -> bytes:
        error = next(validator.iter_errors(value), None)
        if error is not None:
            raise ClientError(f"a value does not match the schema at {error.json_path}: {error.message[:200]}")
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
    return text[:60].decode(errors="replace")
