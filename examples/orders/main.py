"""``python main.py KAFKA.properties CHECKPOINT``: converts the orders in topic ``orders`` to records of two topics, each order
once."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline import invoices_and_journal
from pyspark.sql import SparkSession

import ottla.spark


def main(properties: str, checkpoint: str) -> None:
    lines = [line.partition("=") for line in Path(properties).read_text().splitlines() if "=" in line]
    kafka = {f"kafka.{name.strip()}": value.strip() for name, _, value in lines}
    spark = SparkSession.builder.appName("orders").getOrCreate()
    ottla.spark.register(spark)

    source = {**kafka, "subscribe": "orders", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    orders = spark.readStream.format("kafka").options(**source).option("maxOffsetsPerTrigger", 500).load()
    sink = ottla.spark.sink(
        {**kafka, "transactional.id": "orders", "topics": "invoices,journal"},
        on_batch=lambda report: print(f"batch {report.batch}: {report.by_topic or 'was committed before'}", flush=True),
    )
    query = invoices_and_journal(orders).writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
