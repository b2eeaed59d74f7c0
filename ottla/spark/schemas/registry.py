"""Decodes values whose Avro schemas are in a registry to records of one Spark schema."""

from __future__ import annotations

import io
import json
from typing import Any

from ottla.client.schema_registry.framing import unframed
from ottla.client.schema_registry.registry_client import (
    AVRO,
    MAX_SCHEMAS,
    RegisteredSchema,
    Registry,
    RegistryClient,
    client_of,
    subject_of,
)
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.avro import avro_schema
from ottla.spark.worker_python import AVRO_PACKAGE, missing_package

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
        self._reader = parse_schema(json.loads(avro_schema(schema)))
        self._writers: dict[int, Any] = {}

    def decode(self, value: bytes | None) -> dict[str, Any] | None:
        """Decode a record; None for bytes in another format. Raises `PipelineError` if the registry does not answer."""
        split = unframed(value)
        writer = None if split is None else self._writer(split.schema_id)
        if split is None or writer is None:
            return None
        from fastavro import schemaless_reader

        source = io.BytesIO(split.payload)
        try:
            record = schemaless_reader(source, writer, self._reader)
        except Exception:
            # The bytes are invalid. fastavro raises many types of exceptions.
            return None
        return record if isinstance(record, dict) and not source.read(1) else None

    def _writer(self, number: int) -> Any:
        """Return the parsed Avro schema with this id; None for an unknown id. Raises `PipelineError` for an invalid schema."""
        if number in self._writers:
            return self._writers[number]
        schema = self._client.schema(number)
        if schema is None or schema.kind != AVRO:
            # Do not cache an unknown id, because the schema may be registered later.
            return None
        if len(self._writers) >= MAX_SCHEMAS:
            self._writers.clear()
        self._writers[number] = self._parsed(number, schema)
        return self._writers[number]

    def _parsed(self, number: int, schema: RegisteredSchema) -> Any:
        from fastavro import parse_schema

        try:
            parsed, named = json.loads(schema.text), dict[str, Any]()
            for reference in self._client.referenced(schema).values():
                parse_schema(json.loads(reference.text), named_schemas=named)
            if isinstance(parsed, dict) and parsed.get("type") == "record":
                # Avro compares records by name, so the writer's schema gets the name of the reader's schema.
                parsed = {**parsed, "name": "Value", "namespace": ""}
            return parse_schema(parsed, named_schemas=named)
        except PipelineError:
            raise
        except Exception as error:
            # fastavro raises many types of exceptions. Returning None would silently drop all values of the schema.
            what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise PipelineError(f"schema {number} of the registry cannot be read ({what})") from None
