"""Converts orders. The module `ottla.pipeline` does not conflict with this module."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from storage import ORDER


def invoices_and_journal(records: DataFrame) -> DataFrame:
    """Return two rows for each order: an invoice with the customer as key, and a line of the journal with the order's id as key."""
    parsed = f.from_json(f.col("value").cast("string"), ORDER)
    orders = records.select(parsed.alias("o")).select("o.*").where("order_id IS NOT NULL")
    invoice = f.struct(
        f.lit("invoices").alias("topic"), f.col("customer").alias("key"), f.to_json(f.struct("order_id", "cents")).alias("value")
    )
    line = f.struct(f.lit("journal").alias("topic"), f.col("order_id").alias("key"), f.col("cents").cast("string").alias("value"))
    return orders.select(f.explode(f.array(invoice, line)).alias("row")).select("row.*")
