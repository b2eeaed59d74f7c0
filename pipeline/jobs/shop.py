"""Purchases become an invoice and a shipment each; what is no purchase goes to the dead letters. All of it in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pipeline.errors import PipelineError
from pipeline.exactly_once import Report
from pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASE, PURCHASES, SHIPMENTS
from pipeline.sink import ExactlyOnceSink, SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPICS = (INVOICES, SHIPMENTS, DEAD_LETTERS)


class ShopOptions(msgspec.Struct, frozen=True):
    """``batch_records`` bounds a micro-batch; ``is_bounded`` stops when everything that is there now has been read."""

    bootstrap: str
    transactional_id: str
    checkpoint: str
    run: str
    batch_records: int = 50_000
    is_bounded: bool = True
    interval_ms: int = 500
    by_driver: bool = False


def read(spark: SparkSession, bootstrap: str, topic: str, batch_records: int) -> DataFrame:
    """A topic as a stream, committed records only."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(batch_records),
        "kafka.isolation.level": "read_committed",
        # The connector asks for offsets about twice a poll.
        "kafka.max.poll.records": "50000",
    }
    return spark.readStream.format("kafka").options(**options).load()


REQUIRED = ("id", "user", "product", "quantity", "price_cents", "at_ms")


def parsed(purchases: DataFrame) -> DataFrame:
    """The connector's rows, the purchase beside them as ``p``; its fields are null where they cannot be read."""
    from pyspark.sql import functions as f

    return purchases.withColumn("p", f.from_json(f.col("value").cast("string"), PURCHASE))


def is_sound() -> Column:
    """Whether ``p`` is a purchase."""
    from pyspark.sql import functions as f

    complete = f.lit(True)
    for name in REQUIRED:
        complete = complete & f.col("p")[name].isNotNull()
    return f.coalesce(complete & (f.col("p.quantity") > 0) & (f.col("p.price_cents") >= 0), f.lit(False))


def transform(purchases: DataFrame, run: str) -> DataFrame:
    """Rows for the sink (`schemas.OUTPUT`), two for a purchase and one for what is none."""
    from pyspark.sql import functions as f

    amount = (f.col("p.quantity") * f.col("p.price_cents")).alias("amount_cents")
    invoice = f.to_json(f.struct(f.col("p.id").alias("purchase"), "p.user", amount, "p.at_ms"))
    shipment = f.to_json(f.struct(f.col("p.id").alias("purchase"), "p.user", "p.product", "p.quantity"))
    source = f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")
    headers = f.array(
        *(
            f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value"))
            for name, value in (("run", f.lit(run)), ("source", source))
        )
    )

    def row(topic: str, key: Column, value: Column) -> Column:
        return f.struct(f.lit(topic).alias("topic"), key.alias("key"), value.alias("value"), headers.alias("headers"))

    key = f.encode(f.col("p.id").cast("string"), "UTF-8")
    good = f.array(row(INVOICES, key, f.encode(invoice, "UTF-8")), row(SHIPMENTS, key, f.encode(shipment, "UTF-8")))
    bad = f.array(row(DEAD_LETTERS, f.col("key"), f.col("value")))
    return parsed(purchases).select(f.explode(f.when(is_sound(), good).otherwise(bad)).alias("row")).select("row.*")


def start(
    spark: SparkSession,
    options: ShopOptions,
    on_report: Callable[[Report, float], None],
    on_retry: Callable[[int, BaseException], None],
) -> StreamingQuery:
    """Begin; the query runs until it is stopped or, where it is bounded, everything is read. Raises `PipelineError`."""
    settings = SinkOptions(options.bootstrap, options.transactional_id, TOPICS, options.run, by_driver=options.by_driver)
    sink = ExactlyOnceSink(settings, on_report, on_retry)
    sink.check(PURCHASES)
    sink.start()
    frame = transform(read(spark, options.bootstrap, PURCHASES, options.batch_records), options.run)
    writer = frame.writeStream.foreachBatch(sink.write).option("checkpointLocation", options.checkpoint).queryName("shop")
    writer = writer.trigger(availableNow=True) if options.is_bounded else writer.trigger(processingTime=f"{options.interval_ms} ms")
    return writer.start()


def finish(query: StreamingQuery) -> None:
    """Wait for the end. Raises `PipelineError` with the cause, in one line."""
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise PipelineError(cause_of(str(error))) from error


def cause_of(text: str) -> str:
    """The line of a Python error inside what Spark says of it, else its first line."""
    for line in reversed(text.splitlines()):
        for name in ("Fenced", "Refused", "PipelineError"):
            found = f"pipeline.errors.{name}: "
            if found in line:
                return line.partition(found)[2].strip()
    return text.strip().splitlines()[0] if text.strip() else "the stream failed"
