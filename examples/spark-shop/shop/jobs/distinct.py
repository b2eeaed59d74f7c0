"""Deduplication: each order once, however often it was sent. An order older than the watermark cannot be compared with orders that
Spark has forgotten, so it goes to ``late-orders``."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from shop.inputs import Input, opened, out
from shop.jobs.job import SINK, Job, letters_for
from shop.lateness import always, if_late
from shop.schemas import CLEAN_ORDERS, DEAD_LETTERS, LATE_ORDERS, ORDER, ORDERS
from shop.settings import Settings


def distinct(orders: Input, settings: Settings) -> DataFrame:
    """Return the orders without repetitions. Orders with equal id and time are repetitions."""
    rows = orders.good.withWatermark("at", f"{settings.watermark_minutes} minutes").withColumn("id", f.col("row.id"))
    firsts = rows.select("id", "at", "row", "source").dropDuplicates(["id", "at"])
    clean = always(firsts.select(out(CLEAN_ORDERS, f.col("id"), f.to_json("row"), f.col("source")).alias("out")))
    late = if_late(
        orders.good.select(out(LATE_ORDERS, f.col("row.id"), f.to_json("row"), f.col("source")).alias("out"), "row"),
        f.col("row.at_ms"),
    ).drop("row")
    written = clean.unionByName(late).select("out.*", "deadline_ms").withColumn(SINK, f.lit("orders"))
    return written.unionByName(letters_for("orders", orders.letters))


def rows(spark: SparkSession, settings: Settings) -> DataFrame:
    return distinct(opened(spark, ORDERS, ORDER, settings), settings)


JOB = Job("distinct", (ORDERS,), {"orders": (CLEAN_ORDERS, LATE_ORDERS, DEAD_LETTERS)}, rows)
