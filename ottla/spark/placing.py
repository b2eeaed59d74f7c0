"""Rows of Spark's to the partitions of their topics. Needs Spark and pandas, which looks at the annotations here."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.choosing import chosen
from ottla.spark.worker import prepare

_HASHING = "org.apache.kafka.common.utils.Utils"
_POSITIVE = 0x7FFFFFFF


def placed(frame: DataFrame, partitions: Mapping[str, int], start: int = 0) -> DataFrame:
    """Rows of `rows.outgoing` with the partition that `choosing.chosen` has for each.

    Where the JVM has Kafka's own client, as any session has that reads from Kafka, its hash is asked: a visit to Python takes
    longer than all else that is done to a row here. A row for a topic that is not among ``partitions`` has none then.
    """
    hashed = _hashed_by_jvm(frame.sparkSession, f.col("key"))
    if hashed is None:
        place = pandas_udf(_chooser(dict(partitions), start), "int")(f.col("topic"), f.col("key"), f.col("partition"))
    else:
        # A record without a key goes anywhere, and to the same place where its task or its batch is tried again.
        number = f.coalesce(hashed.bitwiseAND(_POSITIVE), (f.rand(start) * _POSITIVE).cast("int"))
        place = f.coalesce(f.col("partition"), number % _count_of(partitions))
    return frame.withColumn("partition", place)


def _count_of(partitions: Mapping[str, int]) -> Column:
    """How many the row's topic has; null for one that is unknown."""
    if not partitions:
        return f.lit(None).cast("int")
    (first, count), *others = partitions.items()
    counts = f.when(f.col("topic") == first, count)
    for name, count in others:
        counts = counts.when(f.col("topic") == name, count)
    return counts


def _hashed_by_jvm(spark: SparkSession, key: Column) -> Column | None:
    """Null for a null. None where the JVM does not have Kafka's client, or another way to call it."""
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
        # Of these the first says that a null gives a null, the last that the same gives the same.
        invoked = call(hashing, integer, "murmur2", arguments, none, True, True, True, no_function)
        return Column(expressions.column(invoked))
    except (Py4JError, TypeError):
        return None


def brought_together(rows: DataFrame, partitions: Mapping[str, int], start: int = 0) -> DataFrame:
    """`placed`, and the rows of a partition in one task."""
    tasks = min(sum(partitions.values()), rows.sparkSession.sparkContext.defaultParallelism)
    return placed(rows, partitions, start).repartition(max(1, tasks), "topic", "partition")


def _chooser(
    partitions: dict[str, int], start: int
) -> Callable[[Iterator[tuple[pd.Series, pd.Series, pd.Series]]], Iterator[pd.Series]]:
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
