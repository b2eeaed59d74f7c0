"""Reads and writes columns of values in a schema registry's wire format. The module needs Spark and pandas."""

from collections.abc import Callable, Iterator
from typing import Final

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.schemas.avro import avro_schema
from ottla.spark.schemas.formats import AVRO
from ottla.spark.schemas.registry import Decoder, Registry, client_of
from ottla.spark.worker import prepare
from ottla.spark.worker_python import AVRO_PACKAGE, check_package

_IS_DECODED: Final = "ottla is decoded"
"""A field that distinguishes values that cannot be decoded from values with null fields. Names in `avro_schema` contain no
space."""


def from_registry(value: Column, registry: Registry, schema: str) -> Column:
    """Decode each value to a struct of ``schema`` (``id LONG, name STRING``).

    The struct is null if the value is null or its bytes cannot be decoded. The values may have different schemas of the registry.
    Fields of ``schema`` that a value does not have are null; further fields of the value are dropped. Raises `PipelineError` if the
    workers have no fastavro.
    """
    names = _names(schema)
    if (spark := SparkSession.getActiveSession()) is not None:
        check_package(spark, AVRO_PACKAGE)
    # A pandas function cannot return a null struct, so `_IS_DECODED` tells which structs become null.
    decoded = pandas_udf(_decoding(registry, schema), f"{schema}, `{_IS_DECODED}` BOOLEAN")(value)
    return f.when(decoded[_IS_DECODED], f.struct(*(decoded[name].alias(name) for name in names)))


def to_registry(row: Column, registry: Registry, subject: str, schema: str) -> Column:
    """Register ``schema`` under ``subject``, and return an expression that encodes each struct; null stays null.

    Raises `PipelineError`.
    """
    number = client_of(registry).register(subject, avro_schema(schema))
    return f.concat(f.unhex(f.lit(f"00{number:08x}")), AVRO.write(row, schema))


class RegistryFormat:
    """Values in the wire format of a schema registry, for `decoded_records.read`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def parse(self, records: DataFrame, schema: str) -> DataFrame:
        """Add the columns ``p``, the decoded value, and ``fault``, as `formats.Format.parse` does."""
        found = records.withColumn("p", from_registry(f.col("value"), self._registry, schema))
        unreadable = f.lit("the value is not an Avro record or a Protobuf message with a schema of the registry")
        fault = f.when(f.col("value").isNull(), f.lit("the value is null")).when(f.col("p").isNull(), unreadable)
        return found.withColumn("fault", fault)


def _names(schema: str) -> list[str]:
    return [part.split()[0] for part in schema.split(",")]


def _decoding(registry: Registry, schema: str) -> Callable[[Iterator[pd.Series]], Iterator[pd.DataFrame]]:
    names = _names(schema)

    def decode(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        prepare()
        decoder = Decoder(client_of(registry), schema)
        for values in batches:
            records = [decoder.decode(None if value is None else bytes(value)) for value in values]
            columns = {name: pd.Series([None if r is None else r.get(name) for r in records], dtype=object) for name in names}
            yield pd.DataFrame(columns | {_IS_DECODED: [r is not None for r in records]})

    return decode
