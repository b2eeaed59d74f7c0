"""Finds the rows that Spark drops because they are older than the watermark, so that the jobs can write them to a topic.

A stateful operator of Spark drops late rows and only counts them. Here each query also carries its input rows, with the watermark
from which on they are late (`DEADLINE`). The function of foreachBatch reads the watermark that Spark used for the batch, and keeps
exactly the rows that the operator has dropped. Topics are therefore read twice in each batch.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

DEADLINE: Final = "deadline_ms"
"""Column with the watermark, in ms, from which on the operator drops the row. Null in other rows."""


def always(rows: DataFrame) -> DataFrame:
    """Add a null `DEADLINE` to rows that are always written."""
    return rows.withColumn(DEADLINE, f.lit(None).cast("long"))


def if_late(rows: DataFrame, deadline_ms: Column) -> DataFrame:
    """Add `DEADLINE` to rows that are written only if the watermark has reached it."""
    return rows.withColumn(DEADLINE, deadline_ms.cast("long"))


def kept(rows: DataFrame, watermark_ms: int) -> DataFrame:
    """Return the rows to write if Spark has used this watermark for the batch."""
    return rows.where(f.col(DEADLINE).isNull() | (f.col(DEADLINE) <= watermark_ms)).drop(DEADLINE)


def watermarks(spark: SparkSession, checkpoint: str, batch: int) -> tuple[int, int]:
    """Return two watermarks of the batch, in ms: Spark drops late rows by the first, and removes state by the second. The first is
    the watermark of the previous batch.

    The checkpoint has both, so a repeated batch gets the same watermarks. An operator drops a row if its time, or the end of its
    window, is not after the first watermark (Spark's WatermarkSupport and WatermarkPropagator).
    """
    files = [f"{checkpoint}/offsets/{number}" for number in range(max(0, batch - 1), batch + 1)]
    lines = [row.value for row in spark.read.text(files).collect()]
    both = [int(json.loads(line)["batchWatermarkMs"]) for line in lines if line.startswith('{"batchWatermarkMs"')]
    # A watermark never decreases, so the smaller one is the previous batch's.
    return (min(both) if batch else 0), max(both)
