"""Enrichment: each order with the name and category of its product, as an invoice and as a shipment, by two sinks.

Rows that must be committed together need one sink, such as the invoices and the dead letters. The shipments have a sink of their
own, as for another team's topic. If a driver dies between the two commits, the next start writes only to the sink that has not
committed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from shop.inputs import Input, dead_letter, latest_products, opened, out
from shop.jobs.job import SINK, Job, letters_for
from shop.lateness import always
from shop.schemas import CLEAN_ORDERS, DEAD_LETTERS, INVOICES, ORDER, PRODUCTS, SHIPMENTS
from shop.settings import Settings


def enriched(orders: Input, products: DataFrame) -> DataFrame:
    """Return an invoice and a shipment for each order, or a dead letter if its product is unknown."""
    order = f.col("row")
    joined = orders.good.withColumn("product", order["product"]).join(products, "product", "left")
    cents = (order["quantity"].cast("long") * order["cents"]).alias("cents")
    invoice = f.to_json(
        f.struct(order["id"].alias("order"), order["customer"], "product", "name", "category", cents, order["at_ms"])
    )
    shipment = f.to_json(f.struct(order["id"].alias("order"), "product", "name", order["quantity"]))
    reason = f.concat(f.lit("unknown product "), f.coalesce(f.col("product"), f.lit("null")))

    def row(sink: str, made: object) -> object:
        return f.struct(f.lit(sink).alias(SINK), made.alias("out"))

    good = f.array(
        row("invoices", out(INVOICES, order["id"], invoice, f.col("source"))),
        row("shipments", out(SHIPMENTS, order["id"], shipment, f.col("source"))),
    )
    bad = f.array(row("invoices", dead_letter(reason)))
    exploded = joined.select(f.explode(f.when(f.col("name").isNotNull(), good).otherwise(bad)).alias("each"))
    written = always(exploded.select("each.out.*", f.col("each.sink").alias(SINK)))
    return written.unionByName(letters_for("invoices", orders.letters))


def rows(spark: SparkSession, settings: Settings) -> DataFrame:
    return enriched(opened(spark, CLEAN_ORDERS, ORDER, settings), latest_products(spark, settings))


JOB = Job("invoices", (CLEAN_ORDERS, PRODUCTS), {"invoices": (INVOICES, DEAD_LETTERS), "shipments": (SHIPMENTS,)}, rows)
