"""Writes a batch by the sinks of `ottla.spark`, with a receipt in each transaction.

The receipt says how many records the transaction has in each topic, and each record names its receipt in a header. The audit can
therefore check from committed records, on any Kafka, whether a transaction is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import ottla.spark
from shop.inputs import headers
from shop.jobs.job import SINK, Job
from shop.lateness import kept, watermarks
from shop.schemas import BATCH, HEADERS, RECEIPTS
from shop.settings import Settings


def sinks_of(job: Job, settings: Settings) -> ottla.spark.SeveralSinks:
    return ottla.spark.sinks(
        {**settings.connection, "transaction.timeout.ms": str(settings.transaction_timeout_ms)},
        **{
            sink: {"transactional.id": settings.transactional_id(job.name, sink), "topics": ",".join((*topics, RECEIPTS))}
            for sink, topics in job.sinks.items()
        },
    )


def writer(
    job: Job, settings: Settings, sinks: ottla.spark.SeveralSinks, on_batch: Callable[[str], None]
) -> Callable[[DataFrame, int], None]:
    """Return the function for foreachBatch. ``on_batch`` gets a line about each batch."""

    def write(rows: DataFrame, batch: int) -> None:
        spark = rows.sparkSession
        stream = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        late_ms, watermark_ms = watermarks(spark, settings.checkpoint(job.name), batch)
        # Cache the rows, because they are counted and written: otherwise Spark would read and join them twice.
        batch_rows = kept(rows, late_ms).persist()
        try:
            counted = batch_rows.groupBy(SINK, "topic").count().collect()
            frames, texts = {}, {}
            for sink in job.sinks:
                records = {row["topic"]: row["count"] for row in counted if row[SINK] == sink}
                own = batch_rows.where(f.col(SINK) == sink).drop(SINK)
                frames[sink] = with_receipt(own, Receipt(f"{job.name}.{sink}", stream, batch, watermark_ms, records))
                texts[sink] = ", ".join(f"{count:,} {topic}" for topic, count in sorted(records.items())) or "nothing"
            replays = {sink: metrics.replays for sink, metrics in sinks.metrics.items()}
            sinks.write(batch, **frames)
            for sink, metrics in sinks.metrics.items():
                was_there = metrics.replays > replays[sink]
                on_batch(f"{job.name}.{sink}, batch {batch}: {'was committed before' if was_there else texts[sink]}")
        finally:
            batch_rows.unpersist()

    return write


@dataclass(frozen=True, slots=True)
class Receipt:
    """The content of a transaction. ``watermark_ms`` is the watermark up to which Spark has removed state."""

    sink: str
    stream: str
    batch: int
    watermark_ms: int
    records: Mapping[str, int]

    @property
    def label(self) -> str:
        return f"{self.sink}/{self.stream}/{self.batch}"


def with_receipt(rows: DataFrame, receipt: Receipt) -> DataFrame:
    """Add a header with the batch to each row, and add the receipt as a row."""
    label = headers(**{BATCH.replace(".", "__"): f.lit(receipt.label)})
    labelled = rows.withColumn("headers", f.concat(f.coalesce("headers", f.array().cast(HEADERS)), label))
    own = rows.sparkSession.range(1).select(
        f.lit(RECEIPTS).alias("topic"),
        f.lit(receipt.sink).cast("binary").alias("key"),
        f.lit(json.dumps(asdict(receipt))).cast("binary").alias("value"),
        label.alias("headers"),
    )
    return labelled.unionByName(own)
