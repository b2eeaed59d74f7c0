"""A join of two streams: each order with its payment within the time limit, and orders and payments without a counterpart.

An outer join keeps every order and payment, but Spark writes a row without a counterpart only when the watermark has passed the
time limit. Until then the row is open: it is stored in the checkpoint.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from shop.inputs import Input, opened, out
from shop.jobs.job import SINK, Job, letters_for
from shop.lateness import always, if_late
from shop.schemas import (
    CLEAN_ORDERS,
    DEAD_LETTERS,
    LATE_SETTLEMENTS,
    ORDER,
    PAYMENT,
    PAYMENT_SOURCE,
    PAYMENTS,
    SETTLEMENTS,
)
from shop.settings import Settings


def matched(orders: DataFrame, payments: DataFrame, settings: Settings) -> DataFrame:
    """Join the good rows of both inputs. Columns: ``id``, ``owed``, ``source`` of orders; ``payment``, ``paid``,
    ``paid_source``."""
    delay = f"{settings.watermark_minutes} minutes"
    owed = f.col("row.quantity").cast("long") * f.col("row.cents")
    left = orders.withWatermark("at", delay)
    left = left.select(f.col("row.id").alias("id"), owed.alias("owed"), f.col("at").alias("ordered_at"), "source")
    right = payments.withWatermark("at", delay).select(
        f.col("row.order").alias("paid_order"),
        f.col("row.id").alias("payment"),
        f.col("row.cents").alias("paid"),
        f.col("at").alias("paid_at"),
        f.col("source").alias("paid_source"),
    )
    limit = f.expr(f"INTERVAL {settings.pay_within_minutes} MINUTES")
    in_time = (f.col("paid_at") >= f.col("ordered_at")) & (f.col("paid_at") <= f.col("ordered_at") + limit)
    return left.join(right, (f.col("id") == f.col("paid_order")) & in_time, "full_outer")


def settlements(orders: Input, payments: Input, settings: Settings) -> DataFrame:
    status = f.when(f.col("source").isNull(), "unmatched").when(f.col("paid_source").isNull(), "unpaid").otherwise("paid")
    order = f.coalesce("id", "paid_order")
    value = f.to_json(f.struct(status.alias("status"), order.alias("order"), "owed", "payment", "paid"))
    paid_source = {PAYMENT_SOURCE.replace(".", "__"): f.col("paid_source")}
    settled = matched(orders.good, payments.good, settings).select(
        out(SETTLEMENTS, order, value, f.col("source"), **paid_source).alias("out")
    )
    late = (
        if_late(
            one.good.select(out(LATE_SETTLEMENTS, f.col(key), f.to_json("row"), f.col("source")).alias("out"), "row"),
            f.col("row.at_ms"),
        ).drop("row")
        for one, key in ((orders, "row.id"), (payments, "row.order"))
    )
    written = always(settled)
    for rows_if_late in late:
        written = written.unionByName(rows_if_late)
    written = written.select("out.*", "deadline_ms").withColumn(SINK, f.lit("settlements"))
    return written.unionByName(letters_for("settlements", orders.letters, payments.letters))


def rows(spark: SparkSession, settings: Settings) -> DataFrame:
    orders = opened(spark, CLEAN_ORDERS, ORDER, settings)
    return settlements(orders, opened(spark, PAYMENTS, PAYMENT, settings), settings)


JOB = Job("settlements", (CLEAN_ORDERS, PAYMENTS), {"settlements": (SETTLEMENTS, LATE_SETTLEMENTS, DEAD_LETTERS)}, rows)
