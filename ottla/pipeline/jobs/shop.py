"""Turns each purchase into an invoice and a shipment, and other records into dead letters, all in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.schemas import DEFAULT_TERMS, INVOICE, PURCHASE, SHIPMENT, ShopTopics, Terms
from ottla.pipeline.stream import Job
from ottla.spark.schemas.dead_letters import dead_letter, headers_of, room, size_of, source
from ottla.spark.schemas.formats import JSON, Format, first_fault

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first and last timestamp that Spark supports (years 1 to 9999), in ms since 1970."""


def parsed(purchases: DataFrame, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """Add two columns to the rows of Spark's Kafka connector: the purchase as ``p``, and ``fault``, the reason why the record is
    not a valid purchase, or null.

    Two records with the same contents are two purchases, unless ``terms.deduplicate`` is set.
    """
    from pyspark.sql import functions as f

    at_ms, record_ms = f.col("p.at_ms"), f.unix_millis("timestamp")
    # The timestamp -1 means that the record has no timestamp.
    is_ahead = (record_ms >= 0) & (at_ms > record_ms + terms.max_ahead_ms)
    faults = [
        (f.col("fault").isNotNull(), f.col("fault")),
        (f.col("p.quantity") < 1, f.lit("field quantity is below 1")),
        (f.col("p.price_cents") < 0, f.lit("field price_cents is below 0")),
        (_amount().isNull(), f.lit("quantity times price_cents does not fit into a LONG")),
        (~at_ms.between(FIRST_MS, LAST_MS), f.lit("field at_ms is no date of the years 1 to 9999")),
        (is_ahead, f.lit(f"field at_ms is more than {terms.max_ahead_ms} ms ahead of the record's own time")),
    ]
    rows = values.parse(purchases, PURCHASE).withColumn("fault", first_fault(faults))
    if not terms.deduplicate:
        return rows
    # Only valid purchases are deduplicated; each invalid record becomes a dead letter.
    same = f.struct(f.when(is_sound(), f.col("p")), f.when(~is_sound(), source()))
    return rows.withColumn("_same", same).dropDuplicates(["_same"]).drop("_same")


def handled(purchases: DataFrame, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """Add the columns ``invoice`` and ``shipment`` to the rows of `parsed`. A row with a value that is too large for the topic gets
    a ``fault``."""
    from pyspark.sql import functions as f

    amount = _amount().alias("amount_cents")
    invoice = values.write(f.struct(f.col("p.id").alias("purchase"), "p.user", amount, "p.at_ms"), INVOICE)
    shipment = values.write(f.struct(f.col("p.id").alias("purchase"), "p.user", "p.product", "p.quantity"), SHIPMENT)
    purchases = parsed(purchases, values, terms).withColumn("invoice", invoice).withColumn("shipment", shipment)
    faults = [(f.col("fault").isNotNull(), f.col("fault"))]
    for name, topic in (("invoice", terms.topics.invoices), ("shipment", terms.topics.shipments)):
        limit = terms.limits.get(topic)
        if limit is not None:
            words = f"the {name} is too large for topic {topic}, which accepts {limit} bytes"
            faults.append((size_of(f.col(name)) + size_of(_key()) > room(limit), f.lit(words)))
    return purchases.withColumn("fault", first_fault(faults))


def is_sound() -> Column:
    """Whether a row of `parsed` is a valid purchase."""
    from pyspark.sql import functions as f

    return f.col("fault").isNull()


def transform(purchases: DataFrame, run: str, values: Format = JSON, terms: Terms = DEFAULT_TERMS) -> DataFrame:
    """Return the rows for the sink (`rows.COLUMNS`): invoice and shipment for a purchase, a dead letter for any other record."""
    from pyspark.sql import functions as f

    topics = terms.topics
    headers = headers_of({"run": f.lit(run), "source": source()})

    def row(topic: str, columns: dict[str, Column]) -> Column:
        return f.struct(f.lit(topic).alias("topic"), *(column.alias(name) for name, column in columns.items()))

    good = f.array(
        row(topics.invoices, {"key": _key(), "value": f.col("invoice"), "headers": headers}),
        row(topics.shipments, {"key": _key(), "value": f.col("shipment"), "headers": headers}),
    )
    bad = f.array(row(topics.dead_letters, dead_letter(run, f.col("fault"), terms.limits.get(topics.dead_letters))))
    purchases = handled(purchases, values, terms)
    return purchases.select(f.explode(f.when(is_sound(), good).otherwise(bad)).alias("row")).select("row.*")


def _amount() -> Column:
    """Return the amount in cents; null if it does not fit into a LONG."""
    from pyspark.sql import functions as f

    return f.try_multiply(f.col("p.quantity").cast("long"), f.col("p.price_cents"))


def _key() -> Column:
    from pyspark.sql import functions as f

    return f.encode(f.col("p.id").cast("string"), "UTF-8")


def job(topics: ShopTopics) -> Job:
    return Job("shop", topics.source, (topics.invoices, topics.shipments, topics.dead_letters), transform)


JOB = job(ShopTopics())
