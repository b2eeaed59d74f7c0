"""Columns of values in a schema registry's wire format. Needs Spark and pandas, which looks at the annotations here."""

from collections.abc import Callable, Iterator

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.avro import avro_schema
from ottla.spark.formats import AVRO
from ottla.spark.registry import Decoder, Registry, client_of
from ottla.spark.worker import prepare


def from_registry(value: Column, registry: Registry, schema: str) -> Column:
    """A struct of ``schema`` (``id LONG, name STRING``) of each value; null where its bytes are none, whatever they are.

    Values may have different schemas of the registry: what they lack of ``schema`` is null, what they have besides is left out.
    """
    return pandas_udf(_decoding(registry, schema), schema)(value)


def to_registry(row: Column, registry: Registry, subject: str, schema: str) -> Column:
    """A struct of ``schema`` to bytes; the schema is registered under ``subject`` now. Raises `PipelineError`."""
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
