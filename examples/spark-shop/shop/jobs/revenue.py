"""Windows: the sum of the invoices of each category and window of event time, written whenever the sum changes.

An invoice whose window has ended before the watermark goes to ``late-invoices``, where a later correction can find it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from shop.inputs import MINUTE_MS, Input, opened, out
from shop.jobs.job import SINK, Job, letters_for
from shop.lateness import always, if_late
from shop.schemas import DEAD_LETTERS, INVOICE, INVOICES, LATE_INVOICES, REVENUE
from shop.settings import Settings


def summed(good: DataFrame, settings: Settings) -> DataFrame:
    """Return ``window_ms`` and ``category`` with the number of ``invoices`` and the sum of ``cents``."""
    timed = good.withWatermark("at", f"{settings.watermark_minutes} minutes").withColumn("category", f.col("row.category"))
    grouped = timed.groupBy(f.window("at", f"{settings.window_minutes} minutes"), "category")
    sums = grouped.agg(f.count("*").alias("invoices"), f.sum("row.cents").alias("cents"))
    return sums.select(f.unix_millis("window.start").alias("window_ms"), "category", "invoices", "cents")


def window_start_ms(at_ms: Column, settings: Settings) -> Column:
    size_ms = settings.window_minutes * MINUTE_MS
    return (f.floor(at_ms / size_ms) * size_ms).cast("long")


def revenue(invoices: Input, settings: Settings) -> DataFrame:
    key = f.concat_ws("|", f.col("window_ms").cast("string"), "category")
    total = f.to_json(f.struct("window_ms", "category", "invoices", "cents"))
    totals = summed(invoices.good, settings).select(out(REVENUE, key, total, f.lit(None).cast("string")).alias("out"))
    late = if_late(
        invoices.good.select(out(LATE_INVOICES, f.col("row.order"), f.to_json("row"), f.col("source")).alias("out"), "row"),
        window_start_ms(f.col("row.at_ms"), settings) + settings.window_minutes * MINUTE_MS,
    ).drop("row")
    written = always(totals).unionByName(late).select("out.*", "deadline_ms").withColumn(SINK, f.lit("revenue"))
    return written.unionByName(letters_for("revenue", invoices.letters))


def rows(spark: SparkSession, settings: Settings) -> DataFrame:
    return revenue(opened(spark, INVOICES, INVOICE, settings), settings)


JOB = Job("revenue", (INVOICES,), {"revenue": (REVENUE, LATE_INVOICES, DEAD_LETTERS)}, rows, output_mode="update")
