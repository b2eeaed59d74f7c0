"""Converts Spark's schemas of plain columns to Avro schemas. Every field is nullable, like Spark's columns."""

from __future__ import annotations

import json
from typing import Final

from ottla.spark.errors import PipelineError

_AVRO_TYPES: Final = {
    "BIGINT": "long",
    "BINARY": "bytes",
    "BOOLEAN": "boolean",
    "DOUBLE": "double",
    "FLOAT": "float",
    "INT": "int",
    "LONG": "long",
    "STRING": "string",
}


def avro_schema(schema: str, name: str = "Value") -> str:
    """Convert Spark's ``name TYPE, ...`` to an Avro record schema. Raises `PipelineError`."""
    fields = []
    for part in schema.split(","):
        words = part.split()
        if len(words) != 2 or words[1].upper() not in _AVRO_TYPES:
            raise PipelineError(f"{part.strip()!r}: give plain columns as in 'id LONG, name STRING', of {', '.join(_AVRO_TYPES)}")
        fields.append({"name": words[0], "type": ["null", _AVRO_TYPES[words[1].upper()]], "default": None})
    return json.dumps({"type": "record", "name": name, "fields": fields})
