"""Reads and writes columns of values in a schema registry's wire format. The module needs Spark and pandas."""

from collections.abc import Callable, Iterator

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.schemas.avro import avro_schema
from ottla.spark.schemas.formats import AVRO
from ottla.spark.schemas.registry import Decoder, Registry, client_of
from ottla.spark.worker import prepare


def from_registry(value: Column, registry: Registry, schema: str) -> Column:
    """Decode each value to a struct of ``schema`` (``id LONG, name STRING``); null for bytes in another format.

    The values may have different schemas of the registry. Fields of ``schema`` that a value does not have are null; further fields
    of the value are dropped.
    """
    return pandas_udf(_decoding(registry, schema), schema)(value)


def to_registry(row: Column, registry: Registry, subject: str, schema: str) -> Column:
    """Register ``schema`` under ``subject``, and return an expression that encodes each struct. Raises `PipelineError`."""
    number = client_of(registry).register(subject, avro_schema(schema))
    return f.concat(f.unhex(f.lit(f"00{number:08x}")), AVRO.write(row, schema))


def _decoding(registry: Registry, schema: str) -> Callable[[Iterator[pd.Series]], Iterator[pd.DataFrame]]:
    names = [part.split()[0] for part in schema.split(",")]

    def decode(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        prepare()
        decoder = Decoder(client_of(registry), schema)
        for values in batches:
            records = [decoder.decode(None if value is None else bytes(value)) for value in values]
            yield pd.DataFrame({name: pd.Series([r and r.get(name) for r in records], dtype=object) for name in names})

    return decode
