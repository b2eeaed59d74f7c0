"""Generates purchases, and writes them in transactions of Spark's tasks. A repeated job writes only records that earlier executions
have not written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

import ottla.spark
from ottla.pipeline.generate import BLOCK_ROWS, Workload, purchases_of
from ottla.spark.schemas.formats import FORMATS
from ottla.spark.sink.metrics import BatchReport
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

BLOCKS_A_PART = 10
"""Number of blocks of rows per transaction."""


class GenerateOptions(msgspec.Struct, frozen=True):
    """The options of the job. ``values`` names the format of the records' values. With the same transactional id, a workload is
    written to a topic only once."""

    bootstrap: str
    topic: str
    workload: Workload
    values: str = "json"
    transactional_id: str = "generate"


def generate(spark: SparkSession, options: GenerateOptions, on_part: Callable[[BatchReport], None]) -> int:
    """Generate the records and return the number of newly written records. Raises `PipelineError`."""
    settings = {
        "kafka.bootstrap.servers": options.bootstrap,
        "transactional.id": options.transactional_id,
        "topic": options.topic,
    }
    blocks = -(-options.workload.rows // BLOCK_ROWS)
    name = f"{options.topic}: {msgspec.json.encode(options.workload).decode()} as {options.values}"
    total = 0
    for number, first in enumerate(range(0, blocks, BLOCKS_A_PART)):
        last = min(blocks, first + BLOCKS_A_PART)
        rows = spark.range(first, last, numPartitions=min(last - first, spark.sparkContext.defaultParallelism))
        frame = rows.mapInArrow(_made(options.workload, options.values), "key BINARY, value BINARY")
        report = ottla.spark.write_once(frame, settings, name, number)
        total += report.records
        on_part(report)
    return total


def _made(workload: Workload, values: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def make(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        prepare()
        for batch in batches:
            for block in batch.column("id").to_pylist():
                rows = list(purchases_of(workload, block, FORMATS[values]))
                columns = [pa.array([row.key for row in rows], pa.binary()), pa.array([row.value for row in rows], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["key", "value"])

    return make
