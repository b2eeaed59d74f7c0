"""Decodes values whose Avro or Protobuf schemas are in a registry to records of one Spark schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from ottla.client.schema_registry.framing import unframed
from ottla.client.schema_registry.registry_client import (
    AVRO,
    MAX_SCHEMAS,
    PROTOBUF,
    RegisteredSchema,
    Registry,
    RegistryClient,
    client_of,
    subject_of,
)
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.avro import avro_schema
from ottla.spark.worker_python import AVRO_PACKAGE, PROTOBUF_PACKAGE, missing_package

__all__ = ["Decoder", "Registry", "RegistryClient", "client_of", "subject_of"]


class Decoder:
    """Decodes values to records of one Spark schema. Missing fields are None."""

    def __init__(self, client: RegistryClient, schema: str) -> None:
        """``schema`` is a Spark schema of plain columns. Raises `PipelineError`, also if fastavro is not installed."""
        try:
            from fastavro import parse_schema
        except ModuleNotFoundError:
            raise missing_package(AVRO_PACKAGE) from None
        self._client = client
        self._schema = schema
        self._reader = parse_schema(json.loads(avro_schema(schema)))
        self._readers: dict[int, Callable[[bytes], Any]] = {}
        """Functions that decode the bytes after the header, by schema id. They raise an exception for invalid bytes."""

    def decode(self, value: bytes | None) -> dict[str, Any] | None:
        """Decode a record; None for bytes in another format. Raises `PipelineError` if the registry does not answer."""
        split = unframed(value)
        read = None if split is None else self._reader_of(split.schema_id)
        if split is None or read is None:
            return None
        try:
            record = read(split.payload)
        except Exception:
            # The bytes are invalid. fastavro and protobuf raise many types of exceptions.
            return None
        return record if isinstance(record, dict) else None

    def _reader_of(self, number: int) -> Callable[[bytes], Any] | None:
        """Return the function that decodes values of the schema with this id; None for an unknown id. Raises `PipelineError` for an
        invalid schema."""
        if number in self._readers:
            return self._readers[number]
        schema = self._client.schema(number)
        if schema is None or schema.kind not in (AVRO, PROTOBUF):
            # Do not cache an unknown id, because the schema may be registered later.
            return None
        if len(self._readers) >= MAX_SCHEMAS:
            self._readers.clear()
        try:
            made = self._protobuf(number) if schema.kind == PROTOBUF else self._avro(schema)
        except PipelineError:
            raise
        except Exception as error:
            # fastavro raises many types of exceptions. Returning None would silently drop all values of the schema.
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise PipelineError(f"schema {number} of the registry cannot be read ({what})") from None
        self._readers[number] = made
        return made

    def _protobuf(self, number: int) -> Callable[[bytes], Any]:
        try:
            from ottla.client.schema_registry.protobuf_messages import ProtobufMessages
            from ottla.spark.schemas.protobuf import decoder
        except ModuleNotFoundError:
            raise missing_package(PROTOBUF_PACKAGE) from None
        return decoder(ProtobufMessages(number, self._client), self._schema)

    def _avro(self, schema: RegisteredSchema) -> Callable[[bytes], Any]:
        from fastavro import parse_schema, schemaless_reader

        parsed, named = json.loads(schema.text), dict[str, Any]()
        for reference in self._client.referenced(schema).values():
            parse_schema(json.loads(reference.text), named_schemas=named)
        if isinstance(parsed, dict) and parsed.get("type") == "record":
            # Avro compares records by name, so the writer's schema gets the name of the reader's schema.
            parsed = {**parsed, "name": "Value", "namespace": ""}
        writer, reader = parse_schema(parsed, named_schemas=named), self._reader

        def read(payload: bytes) -> Any:
            source = io.BytesIO(payload)
            record = schemaless_reader(source, writer, reader)
            return None if source.read(1) else record

        return read
