"""Decodes the records of a topic, and refuses records that the jobs cannot use, which become dead letters with a reason."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import ottla.spark
from shop.schemas import DEAD_LETTERS, HEADERS, PRODUCTS, SOURCE
from shop.settings import Settings

MINUTE_MS = 60_000
FIRST_MS = 0
LAST_MS = 253_402_300_799_999
"""The last ms of the year 9999, after which Spark has no timestamps."""


LARGEST_BYTES = 256 << 10
"""Maximum size of a value, in bytes, so that an output with its headers fits into a batch of 1 MiB."""
LARGEST_QUANTITY = 10_000
LARGEST_CENTS = 10**13
"""Maximum amount, in cents, of an invoice or a payment. A sum of 900,000 such amounts fits into a LONG."""


@dataclass(frozen=True, slots=True)
class Input:
    """The records of one topic. ``good`` has the record's value as ``row``, its time as ``at`` and its position as ``source``.
    ``letters`` has the columns of `outgoing`."""

    good: DataFrame
    letters: DataFrame


def opened(spark: SparkSession, topic: str, schema: str, settings: Settings, *, streams: bool = True) -> Input:
    """Read the committed records of a topic from its beginning."""
    options = {**settings.connection, "subscribe": topic}
    if streams:
        options["maxOffsetsPerTrigger"] = str(settings.batch_records)
    return judged(ottla.spark.read(spark, options, schema, streams=streams), settings)


def judged(decoded: ottla.spark.DecodedRecords, settings: Settings) -> Input:
    """Separate good records from records that break rules which a schema cannot express (`_faults`)."""
    good = decoded.good.withColumn("source", position())
    fault: Column = f.lit(None).cast("string")
    for is_met, reason in reversed(_faults(good.select("row.*").columns, settings)):
        fault = f.when(~f.coalesce(is_met, f.lit(False)), reason).otherwise(fault)
    good = good.withColumn("fault", fault)
    refused = good.where("fault IS NOT NULL").select(dead_letter(f.col("fault")).alias("out"))
    letters = outgoing(decoded.dead_letters(DEAD_LETTERS)).unionByName(refused.select("out.*"))
    kept = good.where("fault IS NULL").drop("fault").withColumn("at", f.timestamp_millis(f.col("row.at_ms")))
    return Input(kept, letters)


def _faults(names: list[str], settings: Settings) -> list[tuple[Column, str]]:
    """Return conditions that a record must meet, and for each the reason for refusing the record.

    Without the conditions, one record could stop a job for ever by an overflowing sum or a too large output, or make all later
    records late by a time in the year 3000.
    """
    at_ms, ahead_ms = f.col("row.at_ms"), settings.max_ahead_minutes * MINUTE_MS
    rules = [
        (f.octet_length(f.to_json("row")) <= LARGEST_BYTES, f"the value has more than {LARGEST_BYTES:,} bytes"),
        (at_ms.between(FIRST_MS, LAST_MS), "field at_ms is no date of the years 1970 to 9999"),
        (
            at_ms <= f.unix_millis("timestamp") + ahead_ms,
            f"field at_ms is more than {settings.max_ahead_minutes} minutes ahead of the record's timestamp",
        ),
    ]
    limit = LARGEST_CENTS
    if "quantity" in names:
        rules.append((f.col("row.quantity").between(1, LARGEST_QUANTITY), f"field quantity is not from 1 to {LARGEST_QUANTITY:,}"))
        limit //= LARGEST_QUANTITY
    return [*rules, (f.col("row.cents").between(0, limit), f"field cents is not from 0 to {limit:,}")]


def latest_products(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the current products: the last record of each key, without deleted products. Spark reads the topic again for each
    batch."""
    options = {
        **settings.connection,
        "subscribe": PRODUCTS,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    return products_of(spark.read.format("kafka").options(**options).load())


def products_of(records: DataFrame) -> DataFrame:
    last = records.groupBy(f.col("key").cast("string").alias("product")).agg(f.max_by("value", "offset").alias("value"))
    described = f.from_json(f.col("value").cast("string"), "name STRING, category STRING")
    return last.select("product", described.alias("d")).select("product", "d.name", "d.category").where("name IS NOT NULL")


def position() -> Column:
    """Format the position of a record of Spark's Kafka source."""
    return f.concat_ws("@", f.concat_ws("-", "topic", f.col("partition").cast("string")), f.col("offset").cast("string"))


def headers(**values: Column) -> Column:
    """Build record headers; a dot in a name is written as two underscores."""
    each = [f.struct(f.lit(n.replace("__", ".")).alias("key"), f.encode(v, "UTF-8").alias("value")) for n, v in values.items()]
    return f.filter(f.array(*each), lambda header: header["value"].isNotNull()).cast(HEADERS)


def out(topic: str, key: Column, value: Column, source: Column, **more: Column) -> Column:
    """Build a row for a sink. ``source`` is the position of the input."""
    own = headers(**{SOURCE.replace(".", "__"): source, **more})
    return f.struct(
        f.lit(topic).alias("topic"), key.cast("binary").alias("key"), value.cast("binary").alias("value"), own.alias("headers")
    )


def dead_letter(reason: Column) -> Column:
    """Build the dead letter of a decoded record. A large value is truncated, and other headers are omitted; the header
    ``ottla.source`` has the position of the whole record."""
    value = f.to_json("row").cast("binary")
    return f.struct(
        f.lit(DEAD_LETTERS).alias("topic"),
        f.substring(f.col("key").cast("binary"), 1, LARGEST_BYTES).alias("key"),
        f.substring(value, 1, LARGEST_BYTES).alias("value"),
        headers(ottla__source=f.col("source"), ottla__reason=reason).alias("headers"),
    )


def outgoing(rows: DataFrame) -> DataFrame:
    """Select the columns of a sink."""
    return rows.select("topic", f.col("key").cast("binary"), f.col("value").cast("binary"), f.col("headers").cast(HEADERS))
