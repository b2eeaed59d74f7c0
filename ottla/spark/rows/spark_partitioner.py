"""Adds the partition of each row to a Spark frame. The module needs Spark and pandas."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.rows.partitioner import chosen
from ottla.spark.worker import prepare

_HASHING = "org.apache.kafka.common.utils.Utils"
_POSITIVE = 0x7FFFFFFF


def placed(frame: DataFrame, partitions: Mapping[str, int], start: int = 0) -> DataFrame:
    """Return the rows of `rows.outgoing` with the partition that `partitioner.chosen` chooses.

    If the JVM has Kafka's client, as in every session that reads from Kafka, Spark calls the client's hash function: sending a row
    to Python would take longer than all other work on the row. In this case, a row whose topic is not in ``partitions`` gets a null
    partition.
    """
    hashed = _hashed_by_jvm(frame.sparkSession, f.col("key"))
    if hashed is None:
        place = pandas_udf(chooser(dict(partitions), start), "int")(f.col("topic"), f.col("key"), f.col("partition"))
    else:
        # A record without a key may go to any partition, but a repeated task or batch must choose the same partition.
        number = f.coalesce(hashed.bitwiseAND(_POSITIVE), (f.rand(start) * _POSITIVE).cast("int"))
        place = f.coalesce(f.col("partition"), number % _count_of(partitions))
    return frame.withColumn("partition", place)


def _count_of(partitions: Mapping[str, int]) -> Column:
    """Return the partition count of the row's topic; null for an unknown topic."""
    if not partitions:
        return f.lit(None).cast("int")
    (first, count), *others = partitions.items()
    counts = f.when(f.col("topic") == first, count)
    for name, count in others:
        counts = counts.when(f.col("topic") == name, count)
    return counts


def _hashed_by_jvm(spark: SparkSession, key: Column) -> Column | None:
    """Return an expression for the hash of each key; null for a null key. Returns None if the JVM does not have Kafka's client, or
    Spark cannot call it."""
    from py4j.protocol import Py4JError

    jvm: Any = spark.sparkContext._jvm
    try:
        expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
        hashing = jvm.org.apache.spark.util.Utils.classForName(_HASHING, True, False)
        none = jvm.PythonUtils.toSeq([])
        integer = jvm.org.apache.spark.sql.types.DataTypes.IntegerType
        arguments = jvm.PythonUtils.toSeq([expressions.expression(key._jc)])
        call = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
        no_function = jvm.scala.Option.empty()
        # StaticInvoke's three booleans: a null key gives null, the result may be null, and equal keys give equal hashes.
        invoked = call(hashing, integer, "murmur2", arguments, none, True, True, True, no_function)
        return Column(expressions.column(invoked))
    except (Py4JError, TypeError):
        return None


def brought_together(rows: DataFrame, partitions: Mapping[str, int], start: int = 0) -> DataFrame:
    """Return the rows of `placed`, arranged so that all rows of a Kafka partition are in one task."""
    tasks = min(sum(partitions.values()), rows.sparkSession.sparkContext.defaultParallelism)
    return placed(rows, partitions, start).repartition(max(1, tasks), "topic", "partition")


def narrowed(rows: DataFrame, partitions: Mapping[str, int], start: int = 0) -> DataFrame:
    """Return the rows of `placed` in at most as many tasks as run at the same time, without a shuffle."""
    return placed(rows, partitions, start).coalesce(rows.sparkSession.sparkContext.defaultParallelism)


def chooser(
    partitions: dict[str, int], start: int
) -> Callable[[Iterator[tuple[pd.Series, pd.Series, pd.Series]]], Iterator[pd.Series]]:
    """Return a function for Spark that chooses the partition of each row by topic, key and given partition."""

    def choose(batches: Iterator[tuple[pd.Series, pd.Series, pd.Series]]) -> Iterator[pd.Series]:
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        at = start + (0 if context is None else context.partitionId())
        for topics, keys, asked in batches:
            columns = (pa.array(topics, pa.string()), pa.array(keys, pa.binary()), pa.array(asked, pa.int32(), from_pandas=True))
            yield pd.Series(chosen(*columns, partitions, at))
            at += len(topics)

    return choose
