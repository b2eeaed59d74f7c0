"""Sums purchases per user, product and hour of event time, and writes the changed totals after every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ottla.pipeline.jobs.shop import is_sound, parsed
from ottla.pipeline.schemas import DEFAULT_TERMS, TOTAL, ShopTopics, Terms
from ottla.pipeline.stream import Job
from ottla.spark.schemas.dead_letters import headers_of
from ottla.spark.schemas.formats import JSON, Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW, WINDOW_MS = "1 hour", 3_600_000
WATERMARK, WATERMARK_MS = "1 hour", 3_600_000
"""Maximum lateness of a purchase. When the newest purchase is this much later than a window's end, Spark ignores further purchases
for the window."""


def summed(purchases: DataFrame, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """Return a row for each window, user and product: window_ms, user, product, purchases, quantity, amount_cents.

    A sum that does not fit into a LONG is null.
    """
    from pyspark.sql import functions as f

    sound = _sound(purchases, values, terms)
    return _grouped(sound.withColumn("at", f.timestamp_millis("p.at_ms")).withWatermark("at", WATERMARK))


def may_be_late(purchases: DataFrame, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """Return the sums of `summed` over the purchases of a topic that may have been late for their window.

    A record was read after all earlier records of its partition, and perhaps after any record of other partitions. If the newest of
    these records is later than the window's end by `WATERMARK`, Spark may have ignored the purchase.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    sound = _sound(purchases, values, msgspec.structs.replace(terms, deduplicate=False))
    newest = {row["partition"]: row["newest"] for row in sound.groupBy("partition").agg(f.max("p.at_ms").alias("newest")).collect()}
    # For each partition, find the newest purchase of all other partitions.
    (first, at), (second, _) = (*sorted(((ms, partition) for partition, ms in newest.items()), reverse=True), *[(None, -1)] * 2)[:2]
    elsewhere = f.when(f.col("partition") == at, f.lit(second).cast("long")).otherwise(f.lit(first).cast("long"))
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    sound = sound.withColumn("newest", f.greatest(f.max("p.at_ms").over(before), elsewhere))
    end_ms = (f.floor(f.col("p.at_ms") / WINDOW_MS) + 1) * WINDOW_MS
    return _grouped(sound.where(f.col("newest") - WATERMARK_MS >= end_ms).withColumn("at", f.timestamp_millis("p.at_ms")))


def _sound(purchases: DataFrame, values: Format, terms: Terms) -> DataFrame:
    """Return the valid purchases as ``p``, with their partitions and offsets."""
    from pyspark.sql import functions as f

    # `explode` is faster than a filter, with which Spark would parse each value twice.
    some = f.when(is_sound(), f.array("p")).otherwise(f.slice(f.array("p"), 1, 0))
    return parsed(purchases, values, terms).select(f.explode(some).alias("p"), "partition", "offset")


def _grouped(sound: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    grouped = sound.select("p.*", "at").groupBy(f.window("at", WINDOW), "user", "product")
    sums = grouped.agg(
        f.count("*").alias("purchases"),
        f.try_sum("quantity").alias("quantity"),
        f.try_sum(f.col("quantity").cast("long") * f.col("price_cents")).alias("amount_cents"),
    )
    return sums.select(f.unix_millis("window.start").alias("window_ms"), "user", "product", "purchases", "quantity", "amount_cents")


def transform(purchases: DataFrame, run: str, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """Return a row for the sink (`rows.COLUMNS`) for each changed total. The key consists of user, product and window."""
    from pyspark.sql import functions as f

    key = f.concat_ws("|", "user", "product", f.col("window_ms").cast("string"))
    value = values.write(f.struct("window_ms", "user", "product", "purchases", "quantity", "amount_cents"), TOTAL)
    return summed(purchases, values, terms).select(
        f.lit(terms.topics.totals).alias("topic"),
        f.encode(key, "UTF-8").alias("key"),
        value.alias("value"),
        headers_of({"run": f.lit(run)}).alias("headers"),
    )


def job(topics: ShopTopics) -> Job:
    return Job("totals", topics.source, (topics.totals,), transform, has_state=True)


JOB = job(ShopTopics())
