"""What each user has spent on each product, hour by hour of the purchases' own time, as it stands after every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.jobs.shop import headers_of, is_sound, parsed
from ottla.pipeline.schemas import PURCHASES, TOTAL, TOTALS
from ottla.pipeline.stream import Job
from ottla.spark.formats import JSON, Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = "1 hour"
WATERMARK = "1 hour"
"""How late a purchase may be. The state of a window goes once the newest purchase is so much younger than its end."""


def summed(purchases: DataFrame, values: Format = JSON) -> DataFrame:
    """A row for each window, user and product that there is: window_ms, user, product, purchases, quantity, amount_cents."""
    from pyspark.sql import functions as f

    sound = parsed(purchases, values).where(is_sound()).select("p.*").withColumn("at", f.timestamp_millis("at_ms"))
    grouped = sound.withWatermark("at", WATERMARK).groupBy(f.window("at", WINDOW), "user", "product")
    sums = grouped.agg(
        f.count("*").alias("purchases"),
        f.sum("quantity").alias("quantity"),
        f.sum(f.col("quantity") * f.col("price_cents")).alias("amount_cents"),
    )
    return sums.select(f.unix_millis("window.start").alias("window_ms"), "user", "product", "purchases", "quantity", "amount_cents")


def transform(purchases: DataFrame, run: str, values: Format = JSON) -> DataFrame:
    """Rows for the sink (`schemas.OUTPUT`), one for each total that has changed; the key is what it is the total of."""
    from pyspark.sql import functions as f

    key = f.concat_ws("|", "user", "product", f.col("window_ms").cast("string"))
    value = values.write(f.struct("window_ms", "user", "product", "purchases", "quantity", "amount_cents"), TOTAL)
    return summed(purchases, values).select(
        f.lit(TOTALS).alias("topic"),
        f.encode(key, "UTF-8").alias("key"),
        value.alias("value"),
        headers_of({"run": f.lit(run)}).alias("headers"),
    )


JOB = Job("totals", PURCHASES, (TOTALS,), transform, has_state=True)
