"""How the values of the topics are written: as JSON, or as Avro in its plain binary form, without a registry's header.

Schemas are Spark's, of plain columns (``id LONG, name STRING``); Avro's are made of them, with every field nullable, as Spark's
are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column

_AVRO_TYPES = {"LONG": "long", "INT": "int", "STRING": "string"}


class Format(Protocol):
    name: str

    def pack(self, record: Mapping[str, object], schema: str) -> bytes:
        """One value, without Spark."""
        ...

    def read(self, value: Column, schema: str) -> Column:
        """Bytes to a struct; it, or a field of it, is null where the bytes do not say it."""
        ...

    def write(self, row: Column, schema: str) -> Column:
        """A struct of the schema's columns to bytes."""
        ...


class Json:
    name = "json"

    def pack(self, record: Mapping[str, object], schema: str) -> bytes:
        return json.dumps(record).encode()

    def read(self, value: Column, schema: str) -> Column:
        from pyspark.sql import functions as f

        return f.from_json(value.cast("string"), schema)

    def write(self, row: Column, schema: str) -> Column:
        from pyspark.sql import functions as f

        return f.encode(f.to_json(row), "UTF-8")


class Avro:
    name = "avro"

    def pack(self, record: Mapping[str, object], schema: str) -> bytes:
        from fastavro import schemaless_writer

        out = io.BytesIO()
        schemaless_writer(out, _parsed(schema), record)
        return out.getvalue()

    def read(self, value: Column, schema: str) -> Column:
        _check_package()
        from pyspark.sql.avro.functions import from_avro

        return from_avro(value, avro_schema(schema), {"mode": "PERMISSIVE"})

    def write(self, row: Column, schema: str) -> Column:
        _check_package()
        from pyspark.sql.avro.functions import to_avro

        return to_avro(row, avro_schema(schema))


JSON, AVRO = Json(), Avro()
FORMATS: dict[str, Format] = {value_format.name: value_format for value_format in (JSON, AVRO)}


def avro_schema(schema: str) -> str:
    """A record of nullable fields for Spark's ``name TYPE, ...``."""
    fields = [part.split() for part in schema.split(",")]
    return json.dumps(
        {
            "type": "record",
            "name": "Value",
            "fields": [{"name": name, "type": ["null", _AVRO_TYPES[kind]], "default": None} for name, kind in fields],
        }
    )


@cache
def _parsed(schema: str) -> Any:
    from fastavro import parse_schema

    return parse_schema(json.loads(avro_schema(schema)))


def _check_package() -> None:
    """Raises `PipelineError` where Spark was submitted without its Avro package."""
    import pyspark
    from py4j.java_gateway import JavaPackage
    from pyspark import SparkContext

    from ottla.spark.versions import packages_for

    jvm: Any = SparkContext._jvm
    if isinstance(jvm.org.apache.spark.sql.avro.functions, JavaPackage):
        raise PipelineError(
            f"--format avro needs Spark's Avro package: spark-submit --packages ...,{packages_for(pyspark.__version__)[1]}"
        )
