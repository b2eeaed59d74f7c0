"""Rows of Spark's to the partitions of their topics. Needs Spark and pandas, which looks at the annotations here."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.choosing import chosen
from ottla.spark.worker import prepare


def placed(frame: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """Rows of `rows.outgoing` with the partition that `choosing.chosen` has for each.

    Only topics and keys go to Python and back; rows stay where they are.
    """
    place = pandas_udf(_chooser(dict(partitions)), "int")(f.col("topic"), f.col("key"), f.col("partition"))
    return frame.withColumn("partition", place)


def brought_together(rows: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """`placed`, and the rows of a partition in one task."""
    tasks = min(sum(partitions.values()), rows.sparkSession.sparkContext.defaultParallelism)
    return placed(rows, partitions).repartition(max(1, tasks), "topic", "partition")


def _chooser(partitions: dict[str, int]) -> Callable[[Iterator[tuple[pd.Series, pd.Series, pd.Series]]], Iterator[pd.Series]]:
    def choose(batches: Iterator[tuple[pd.Series, pd.Series, pd.Series]]) -> Iterator[pd.Series]:
        prepare()
        for topics, keys, asked in batches:
            columns = (pa.array(topics, pa.string()), pa.array(keys, pa.binary()), pa.array(asked, pa.int32(), from_pandas=True))
            yield pd.Series(chosen(*columns, partitions))

    return choose
