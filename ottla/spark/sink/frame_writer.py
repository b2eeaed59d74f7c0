"""``frame.write.format("ottla")``: writes a frame that is not a stream once, like `frames.write_once`.

Spark uses the writer in several processes, as for a stream (`stream_writer`): pickling begins the transaction, the tasks write, and
another process commits. The name and the number of the frame take the place of a stream's id and batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter

from ottla.client.cluster import BrokerConnections
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.batch_limits import small_batches
from ottla.spark.cluster.client import cluster_client
from ottla.spark.cluster.topics import partition_counts
from ottla.spark.errors import PipelineError
from ottla.spark.progress.progress_topic import ProgressTopic, last_mark
from ottla.spark.rows.rows import check_arranged
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.frame_numbers import check_frame_number, check_no_stream, is_written
from ottla.spark.sink.options import FRAME_NAME, FRAME_NUMBER, SinkOptions
from ottla.spark.sink.stream_writer import Message, abort, write_task
from ottla.spark.sink.task_writer import check_alone
from ottla.spark.sink.transaction import SharedProducer, SharedTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_MAX_DIGITS = 10


def frame_in(given: dict[str, Any]) -> tuple[str, int]:
    """Remove the name and the number of the frame from the options. Raises `PipelineError`."""
    name, number = given.pop(FRAME_NAME, ""), str(given.pop(FRAME_NUMBER, "0"))
    if not name:
        raise PipelineError(
            f"format('ottla') needs the option {FRAME_NAME!r}: a frame with a name is written once, so that a job that runs again"
            " writes nothing"
        )
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise PipelineError(f"option {FRAME_NUMBER!r} is {number!r}; the frames of a name are numbered from 0")
    return str(name), int(number)


class FrameWriter(DataSourceArrowWriter):
    """The writer of one frame."""

    def __init__(self, options: SinkOptions, name: str, number: int, schema: StructType) -> None:
        """Raise `PipelineError` for a schema that is not the result of `ottla.spark.arranged`, and without a progress topic."""
        check_arranged(schema)
        if options.progress_topic is None:
            raise PipelineError("format('ottla') needs a progress topic for frames, but progress.topic=none disables it")
        self._options = options
        self._name = name
        self._number = number
        self._producer: SharedProducer | None = None
        self._began_s = 0.0
        self._batch_bytes: dict[str, int] = {}
        self._is_written = False
        """Whether the frame was committed before. If so, the tasks write nothing."""

    def __getstate__(self) -> dict[str, Any]:
        """Begin the transaction, because Spark pickles a writer exactly when it starts the frame's tasks."""
        if self._producer is None and not self._is_written:
            self._begin_transaction()
        return self.__dict__

    def _begin_transaction(self) -> None:
        options = self._options
        with contextlib.closing(cluster_client(options.connecting)) as cluster:
            progress = self._progress(cluster)
            progress.open()
            check_no_stream(cluster, options.transactional_id)
            # Do not initialize the id for a frame that is already written, because initialization fences other producers.
            last = last_mark(cluster, options.transactional_id, progress, is_stable=False)
            if is_written(last, self._number):
                self._is_written = True
                return
            self._batch_bytes = small_batches(cluster, list(partition_counts(cluster, options.topics)))
            transaction = SharedTransaction(cluster, options.transactional_id, options.timeout_ms, progress=progress)
            # Initializing the id completes an earlier transaction, which may have written this frame.
            last = transaction.begin()
            if is_written(last, self._number):
                self._is_written = True
                return
            check_frame_number(self._name, self._number, last)
            self._producer = transaction.producer
            self._began_s = time.time()

    def _progress(self, cluster: BrokerConnections) -> ProgressTopic:
        assert self._options.progress_topic is not None
        return ProgressTopic(cluster, self._options.progress_topic, self._options.transactional_id, frames=self._name)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        if self._producer is None:
            return Message(SharedProducer(self._options.transactional_id, -1, -1), self._began_s, {}, [])
        written = write_task(self._options, self._producer, self._began_s, self._batch_bytes, iterator)
        return Message(self._producer, self._began_s, {}, written)

    def commit(self, messages: list[Message | None]) -> None:
        """Commit the transaction, which `__getstate__` has begun in another process."""
        if self._is_written:
            return
        options, producer = self._options, self._producer
        try:
            written = [part for message in messages if message is not None for part in message.written]
            check_alone(written, "let ottla.spark.arranged bring the rows of a partition together")
            with contextlib.closing(cluster_client(options.connecting)) as cluster:
                progress = self._progress(cluster)
                transaction = SharedTransaction(cluster, options.transactional_id, options.timeout_ms, producer, progress)
                frames: ExactlyOnce[Any] = ExactlyOnce(transaction, options.run, options.timeout_ms, time.time)
                frames.start()
                frames.write(self._name, self._number, lambda _: written, InputEnds(), self._began_s)
        except BaseException:
            abort(options, producer)
            raise

    def abort(self, messages: list[Message | None]) -> None:
        abort(self._options, self._producer)
