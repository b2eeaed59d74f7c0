"""Purchases become an invoice and a shipment each; what is no purchase goes to the dead letters. All of it in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.schemas import DEAD_LETTERS, INVOICE, INVOICES, PURCHASE, PURCHASES, SHIPMENT, SHIPMENTS
from ottla.pipeline.stream import Job
from ottla.spark.formats import JSON, Format

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REQUIRED = ("id", "user", "product", "quantity", "price_cents", "at_ms")


def parsed(purchases: DataFrame, values: Format = JSON) -> DataFrame:
    """The connector's rows, the purchase beside them as ``p``; its fields are null where they cannot be read."""
    from pyspark.sql import functions as f

    return purchases.withColumn("p", values.read(f.col("value"), PURCHASE))


def is_sound() -> Column:
    """Whether ``p`` is a purchase."""
    from pyspark.sql import functions as f

    complete = f.lit(True)
    for name in REQUIRED:
        complete = complete & f.col("p")[name].isNotNull()
    return f.coalesce(complete & (f.col("p.quantity") > 0) & (f.col("p.price_cents") >= 0), f.lit(False))


def transform(purchases: DataFrame, run: str, values: Format = JSON) -> DataFrame:
    """Rows for the sink (`schemas.OUTPUT`), two for a purchase and one for what is none."""
    from pyspark.sql import functions as f

    amount = (f.col("p.quantity") * f.col("p.price_cents")).alias("amount_cents")
    invoice = values.write(f.struct(f.col("p.id").alias("purchase"), "p.user", amount, "p.at_ms"), INVOICE)
    shipment = values.write(f.struct(f.col("p.id").alias("purchase"), "p.user", "p.product", "p.quantity"), SHIPMENT)
    source = f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")
    headers = headers_of({"run": f.lit(run), "source": source})

    def row(topic: str, key: Column, value: Column) -> Column:
        return f.struct(f.lit(topic).alias("topic"), key.alias("key"), value.alias("value"), headers.alias("headers"))

    key = f.encode(f.col("p.id").cast("string"), "UTF-8")
    good = f.array(row(INVOICES, key, invoice), row(SHIPMENTS, key, shipment))
    bad = f.array(row(DEAD_LETTERS, f.col("key"), f.col("value")))
    return parsed(purchases, values).select(f.explode(f.when(is_sound(), good).otherwise(bad)).alias("row")).select("row.*")


def headers_of(values: dict[str, Column]) -> Column:
    """Record headers of text."""
    from pyspark.sql import functions as f

    return f.array(*(f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value")) for name, value in values.items()))


JOB = Job("shop", PURCHASES, (INVOICES, SHIPMENTS, DEAD_LETTERS), transform)
