"""`arranged`, which brings all rows of a Kafka partition to one task, for ``format("ottla")``, also on Spark Connect."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.spark.cluster.client import cluster_client
from ottla.spark.cluster.topics import partition_counts
from ottla.spark.rows.rows import check_columns, outgoing
from ottla.spark.sink.options import FRAME_NAME, FRAME_NUMBER, parse_options
from ottla.spark.sink.session_setup import check_data_sources, check_stream_on_connect
from ottla.spark.worker_python import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def arranged(frame: DataFrame, options: Mapping[str, Any]) -> DataFrame:
    """Arrange the rows of a frame or stream for ``format("ottla")``, so that one task has all records of a partition.

    ``options`` are the sink's options; a write's options ``frame.name`` and ``frame.number`` are ignored. Partition counts are read
    during this call. Raises `PipelineError`.
    """
    from ottla.spark.rows.spark_partitioner import brought_together

    check_data_sources(frame.sparkSession)
    of_frame = (FRAME_NAME, FRAME_NUMBER)
    parsed = parse_options({name: value for name, value in options.items() if str(name).lower() not in of_frame})
    with contextlib.closing(cluster_client(parsed.connecting)) as cluster:
        counts = partition_counts(cluster, parsed.topics)
    if is_connect(frame.sparkSession):
        if frame.isStreaming:
            check_stream_on_connect(frame.sparkSession)
        return _on_connect(frame, parsed.topic, counts)
    return brought_together(outgoing(frame, parsed.topic), counts)


def _on_connect(frame: DataFrame, topic: str | None, counts: Mapping[str, int]) -> DataFrame:
    """Arrange the rows by column expressions, because this process has no JVM to call."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import pandas_udf

    from ottla.spark.rows.spark_partitioner import chooser

    given = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
    check_columns(given, has_topic=topic is not None)
    rows = frame.select(
        f.col("topic") if topic is None else f.lit(topic).alias("topic"),
        f.expr("CAST(key AS BINARY) AS key" if "key" in given else "CAST(NULL AS BINARY) AS key"),
        f.expr("CAST(value AS BINARY) AS value"),
        *([f.expr("coalesce(headers, array()) AS headers")] if "headers" in given else []),
        f.expr("partition" if "partition" in given else "CAST(NULL AS INT) AS partition"),
    )
    place = pandas_udf(chooser(dict(counts), 0), "int")
    placed = rows.withColumn("partition", place(f.col("topic"), f.col("key"), f.col("partition")))
    tasks = min(sum(counts.values()), int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    return placed.repartition(max(1, tasks), "topic", "partition")
