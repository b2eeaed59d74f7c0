"""Gathers the rows of small batches in the driver, which is faster than writing them in tasks.

Most of the time of a small batch is overhead: a Python worker, connections and metadata requests for each task, and a shuffle. Here
the JVM passes the rows to the driver in Arrow format, and the driver is already connected. Spark may repeat tasks and stages,
because it returns the rows of one attempt, and nothing is written before all rows have arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.rows.partitioner import with_places
from ottla.spark.rows.rows import CONTENT, NUMBER, Bounds
from ottla.spark.sink.arrow_results import collected
from ottla.spark.sink.task_writer import TaskWriter, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_OFFSETS: Final = 10_000
"""Maximum number of input offsets of a gathered batch and, because ``explode`` multiplies rows, of rows per Spark partition."""
MAX_RECORD_BYTES: Final = 16 << 10
"""Maximum size of a gathered record (key, value and headers), in bytes."""
PARTITION_BYTES: Final = 16 << 20
"""Maximum of a record's size, in bytes, times the number of rows in its Spark partition so far. With `MAX_OFFSETS` and
`MAX_RECORD_BYTES` it limits the rows of a Spark partition to 53 MiB. Spark has no expression for a running sum of sizes."""
MAX_BYTES: Final = 64 << 20
"""Maximum size, in bytes, of the gathered rows of a batch. When more have arrived in the driver, the Spark job is cancelled."""
GATHERED: Final = Bounds(record_bytes=MAX_RECORD_BYTES, rows=MAX_OFFSETS, partition_bytes=PARTITION_BYTES)
PAUSE_BATCHES: Final = 100
"""Number of batches that are not gathered after a batch that was too large, because such a batch is computed twice."""


class SmallBatches:
    """Decides which batches of a stream are gathered."""

    def __init__(self) -> None:
        self._last_ends: dict[TopicPartition, int] = {}
        self._pause = 0

    def is_small(self, ends: Mapping[TopicPartition, int], begin: Callable[[], Mapping[TopicPartition, int]]) -> bool:
        """Whether the next batch reads at most `MAX_OFFSETS` Kafka offsets; False if unknown.

        ``ends`` is the end of the batch's input. ``begin`` returns the start, and is called if the previous batch's end is unknown.
        """
        before, self._last_ends = self._last_ends, dict(ends)
        if self._pause:
            self._pause -= 1
            return False
        if before.keys() != ends.keys():
            before = dict(begin())
        if not ends or before.keys() != ends.keys():
            return False
        return sum(end - before[where] for where, end in ends.items()) <= MAX_OFFSETS

    def note_large(self) -> None:
        """Record that a batch was too large to be gathered."""
        self._pause = PAUSE_BATCHES


def gathered(rows: DataFrame) -> pa.Table | None:
    """Gather the rows of `rows.Outgoing` with bounds for `task_writer.TaskWriter`.

    Returns None, and stops the Spark job, as soon as a record is too large, or there are too many rows or bytes.
    """
    table = collected(rows, _limit())
    if table is None:
        return None
    table = table.combine_chunks()
    key, value = table.column(CONTENT).flatten()
    return table.drop_columns([CONTENT, NUMBER]).append_column("key", key).append_column("value", value)


def _limit() -> Callable[[pa.RecordBatch], bool]:
    """Return a function that is called for each Arrow batch, and returns whether the batches so far may be gathered."""
    size_bytes = 0

    def is_accepted(batch: pa.RecordBatch) -> bool:
        nonlocal size_bytes
        size_bytes += batch.nbytes
        return size_bytes <= MAX_BYTES and not batch.column(CONTENT).null_count

    return is_accepted


def write_gathered(table: pa.Table, writer: TaskWriter, partitions: Mapping[str, int], start: int) -> list[Written]:
    """Choose the partition of each row (`partitioner.chosen`) and write all rows. Raises `PipelineError` and `MustAbort`."""
    now_ms = time.time_ns() // 1_000_000
    at = start
    try:
        for batch in table.to_batches():
            writer.write(with_places(batch, partitions, at), now_ms)
            at += len(batch)
        return writer.finish()
    except BaseException:
        writer.close()
        raise
