"""Which partition a row goes to. Needs Spark and pandas, which looks at the annotations here."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.errors import PipelineError
from ottla.spark.partitioning import partitions_for
from ottla.spark.worker import prepare


def placed(frame: DataFrame, partitions: dict[str, int]) -> DataFrame:
    """With the partition that Kafka's own producers would choose. Only keys go to Python and back; rows stay where they are."""
    counts = f.create_map(*(f.lit(part) for pair in partitions.items() for part in pair))
    known = f.when(f.col("topic").isin(*partitions), counts[f.col("topic")])
    unknown = f.raise_error(f.concat(f.lit(f"{PipelineError.__module__}.{PipelineError.__name__}: "), _unknown(partitions)))
    chosen = pandas_udf(_choose, "int")(f.col("key"), f.coalesce(known, unknown.cast("int")))
    return frame.select("topic", chosen.alias("partition"), "key", "value", "headers")


def _unknown(partitions: dict[str, int]) -> Column:
    return f.format_string(f"the job writes to topic '%s', and the sink was given {', '.join(sorted(partitions))}", f.col("topic"))


def _choose(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:
    prepare()
    for keys, counts in batches:
        yield _chosen(keys, counts)


def _chosen(keys: pd.Series, counts: pd.Series) -> pd.Series:
    by_count = {count: np.array(partitions_for(keys.tolist(), int(count))) for count in counts.unique()}
    if len(by_count) == 1:
        (partitions,) = by_count.values()
    else:
        partitions = np.empty(len(keys), np.int64)
        for count, chosen in by_count.items():
            partitions[counts == count] = chosen[counts == count]
    return pd.Series(partitions.astype(np.int32))
