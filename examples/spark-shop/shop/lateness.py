"""Finds the rows that Spark drops because they are older than the watermark, so that they get a topic instead.

A stateful operator of Spark drops late rows and only counts them. Here each query also carries its input rows, with the event time
at which they are late (`DEADLINE`). The function of foreachBatch knows the watermark by which Spark has judged the batch, and keeps
exactly those rows that the operator has dropped. Topics are therefore read twice in each batch.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

DEADLINE: Final = "deadline_ms"
"""Column with the watermark, in ms, from which on the operator drops the row. Null in other rows."""


def always(rows: DataFrame) -> DataFrame:
    """Add the column of `if_late` to rows that are written in any case."""
    return rows.withColumn(DEADLINE, f.lit(None).cast("long"))


def if_late(rows: DataFrame, deadline_ms: Column) -> DataFrame:
    """Mark rows that are written only if the watermark has reached ``deadline_ms``."""
    return rows.withColumn(DEADLINE, deadline_ms.cast("long"))


def kept(rows: DataFrame, watermark_ms: int) -> DataFrame:
    """Return the rows to write under the watermark by which Spark has judged the batch."""
    return rows.where(f.col(DEADLINE).isNull() | (f.col(DEADLINE) <= watermark_ms)).drop(DEADLINE)


def watermarks(spark: SparkSession, checkpoint: str, batch: int) -> tuple[int, int]:
    """Return two watermarks of the batch, in ms: the one by which Spark judges whether rows are late, and the one by which it
    removes state. The first is that of the batch before.

    The checkpoint has both, so a batch that runs again gets the same ones. An operator drops a row if its time, or the end of its
    window, is at most the first (Spark's WatermarkSupport and WatermarkPropagator).
    """
    files = [f"{checkpoint}/offsets/{number}" for number in range(max(0, batch - 1), batch + 1)]
    lines = [row.value for row in spark.read.text(files).collect()]
    both = [int(json.loads(line)["batchWatermarkMs"]) for line in lines if line.startswith('{"batchWatermarkMs"')]
    # A watermark never decreases.
    return (min(both) if batch else 0), max(both)
