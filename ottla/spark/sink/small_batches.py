"""Small batches: the driver gathers the rows and writes them itself.

What a batch of few rows costs is not its rows but what Spark does around them: a Python worker in each task, a shuffle, and
connections and questions of each task's own. Here the JVM gives the rows to the driver as Arrow has them, which needs no Python
worker, and the driver has its connections already. Nothing is written before all rows are there, so a task or a stage that Spark
runs again does no harm: Spark gives the rows of one attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.rows.partitioner import with_places
from ottla.spark.rows.rows import CONTENT
from ottla.spark.sink.writer import TaskWriter, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_OFFSETS: Final = 10_000
"""Of so many of its input, at most, a batch is gathered."""
MAX_RECORD_BYTES: Final = 16 << 10
"""The largest key, value and headers, together, that are gathered. With `MAX_OFFSETS` that bounds what the driver has to hold."""
PAUSE_BATCHES: Final = 100
"""So many batches are not gathered after one that had a larger record, because that one is computed twice."""


class SmallBatches:
    """Decides which batches of a stream are gathered."""

    def __init__(self) -> None:
        self._last_ends: dict[TopicPartition, int] = {}
        self._pause = 0

    def is_small(self, ends: Mapping[TopicPartition, int], begin: Callable[[], Mapping[TopicPartition, int]]) -> bool:
        """Whether the next batch has read few offsets of Kafka's. Where that is unknown it is not.

        ``ends`` are those of its input. ``begin`` says where that begins, where the batch before was not given to this object.
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
        """A batch had a record that is too large to be gathered."""
        self._pause = PAUSE_BATCHES


def gathered(rows: DataFrame) -> pa.Table | None:
    """The rows of `rows.Outgoing`, which have `rows.CONTENT`, as `writer.TaskWriter` takes them; None where one is too large."""
    table = rows.toArrow().combine_chunks()
    content = table.column(CONTENT)
    if content.null_count:
        return None
    key, value = content.flatten()
    return table.drop_columns([CONTENT]).append_column("key", key).append_column("value", value)


def write_gathered(table: pa.Table, writer: TaskWriter, partitions: Mapping[str, int], start: int) -> list[Written]:
    """Choose the partition of each row, see `choosing.chosen`, and write all of them. Raises `PipelineError` and `MustAbort`."""
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
