"""Sums what each user has spent on each product in each hour of the purchases' own time, and writes the changed totals after every
batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.dead_letters import headers_of
from ottla.pipeline.jobs.shop import is_sound, parsed
from ottla.pipeline.schemas import DEFAULT_TERMS, TOTAL, Terms, Topics
from ottla.pipeline.stream import Job
from ottla.spark.formats import JSON, Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = "1 hour"
WATERMARK = "1 hour"
"""How late a purchase may be. Spark drops a window's state once the newest purchase is this much later than the window's end."""


def summed(purchases: DataFrame, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """A row for each window, user and product: window_ms, user, product, purchases, quantity, amount_cents.

    A sum that does not fit into a LONG is null.
    """
    from pyspark.sql import functions as f

    # Spark would move a filter below the parsing, and would then parse each value a second time.
    some = f.when(is_sound(), f.array("p")).otherwise(f.slice(f.array("p"), 1, 0))
    sound = parsed(purchases, values, terms).select(f.explode(some).alias("p")).select("p.*")
    sound = sound.withColumn("at", f.timestamp_millis("at_ms"))
    grouped = sound.withWatermark("at", WATERMARK).groupBy(f.window("at", WINDOW), "user", "product")
    sums = grouped.agg(
        f.count("*").alias("purchases"),
        f.try_sum("quantity").alias("quantity"),
        f.try_sum(f.col("quantity").cast("long") * f.col("price_cents")).alias("amount_cents"),
    )
    return sums.select(f.unix_millis("window.start").alias("window_ms"), "user", "product", "purchases", "quantity", "amount_cents")


def transform(purchases: DataFrame, run: str, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """The rows for the sink (`rows.COLUMNS`), one for each total that has changed. The key names the window, the user and the
    product."""
    from pyspark.sql import functions as f

    key = f.concat_ws("|", "user", "product", f.col("window_ms").cast("string"))
    value = values.write(f.struct("window_ms", "user", "product", "purchases", "quantity", "amount_cents"), TOTAL)
    return summed(purchases, values, terms).select(
        f.lit(terms.topics.totals).alias("topic"),
        f.encode(key, "UTF-8").alias("key"),
        value.alias("value"),
        headers_of({"run": f.lit(run)}).alias("headers"),
    )


def job(topics: Topics) -> Job:
    return Job("totals", topics.source, (topics.totals,), transform, has_state=True)


JOB = job(Topics())
