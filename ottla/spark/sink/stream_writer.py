"""``frame.writeStream.format("ottla")``: the exactly-once sink for streams without foreachBatch.

Spark runs a batch of a Python data source in several processes. A process on the driver creates the writer and pickles it for the
tasks; pickling begins the transaction. The tasks write. Another process on the driver creates a second writer, which gets the
producer from the tasks' messages, and commits or aborts. Spark passes the batch number only to this writer, so a batch that was
committed before is written again and then aborted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.cluster import BrokerConnections
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.checkpoint.checkpoint_files import input_in, last_batch_in, query_in
from ottla.spark.cluster.batch_limits import small_batches
from ottla.spark.cluster.client import cluster_client
from ottla.spark.cluster.topics import partition_counts
from ottla.spark.errors import TASK_FAILED, Fenced, MustAbort, PipelineError
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import CommittedMark, group_of, read_committed
from ottla.spark.progress.progress_topic import ProgressTopic
from ottla.spark.rows.rows import check_arranged
from ottla.spark.sink.exactly_once import ExactlyOnce, why_fenced
from ottla.spark.sink.id_claim import claim
from ottla.spark.sink.mark_topic import MarkPlace
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_writer import TaskWriter, Written, check_alone
from ottla.spark.sink.transaction import SharedProducer, SharedTransaction
from ottla.spark.worker import prepare

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _ArrowWriter
except ImportError:
    # Spark 4.0 passes record batches to a subclass of DataSourceArrowWriter, also in a stream.
    from pyspark.sql.datasource import DataSourceArrowWriter as _ArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class Message(WriterCommitMessage):
    """The message of a task: the producer, the time and the input's topic ids when the transaction began, and the written
    partitions."""

    def __init__(self, producer: SharedProducer, began_s: float, ids: dict[str, str], written: list[Written]) -> None:
        self.producer = producer
        self.began_s = began_s
        self.ids = ids
        self.written = written


class StreamWriter(_ArrowWriter):
    """The writer of one batch. ``checkpoint`` is a path or a URI that pyarrow's file systems support."""

    def __init__(self, options: SinkOptions, checkpoint: str, schema: StructType) -> None:
        """Raise `PipelineError` for a schema that is not the result of `ottla.spark.arranged`."""
        check_arranged(schema)
        self._options = options
        self._checkpoint = checkpoint
        self._producer: SharedProducer | None = None
        self._began_s = 0.0
        self._ids: dict[str, str] = {}
        self._batch_bytes: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Begin the transaction, because Spark pickles a writer exactly when it starts the batch's tasks."""
        if self._producer is None:
            self._producer = self._begin_transaction()
        return self.__dict__

    def _begin_transaction(self) -> SharedProducer:
        options = self._options
        with contextlib.closing(cluster_client(options.connecting)) as cluster:
            inputs = InputTopics(cluster)
            progress = _progress(cluster, options, inputs)
            if progress is not None:
                progress.open()
            query, batch = query_in(self._checkpoint), last_batch_in(self._checkpoint)
            if batch is None:
                raise PipelineError(
                    f"the checkpoint {self._checkpoint} has no offsets of any batch; check that it belongs to the query"
                )
            in_group = self._progress_in_group(cluster)
            ends = self._ends(cluster, batch, in_group)
            claim(cluster, options.transactional_id, query, batch, options.run, ends, in_group, progress)
            inputs.check(ends.topics())
            self._ids = inputs.ids
            transaction = SharedTransaction(cluster, options.transactional_id, options.timeout_ms, progress=progress)
            transaction.begin()
            self._batch_bytes = small_batches(cluster, list(partition_counts(cluster, options.topics)))
            self._began_s = time.time()
            return transaction.producer

    def _progress_in_group(self, cluster: BrokerConnections) -> CommittedMark | None:
        return read_committed(cluster, group_of(self._options.transactional_id), is_stable=False)

    def _ends(self, cluster: BrokerConnections, batch: int, in_group: CommittedMark | None) -> InputEnds:
        place, ends = MarkPlace(cluster, self._options), input_in(self._checkpoint, batch)
        place.choose(ends, in_group)
        return place.of(ends, batch)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        assert self._producer is not None
        written = write_task(self._options, self._producer, self._began_s, self._batch_bytes, iterator)
        return Message(self._producer, self._began_s, self._ids, written)

    def commit(self, messages: list[Message | None], batch: int) -> None:
        told = [message for message in messages if message is not None]
        # A batch without tasks has begun no transaction, so `ExactlyOnce.start` begins one for the progress record.
        producer = told[0].producer if told else None
        began_s = told[0].began_s if told else None
        try:
            written = [part for message in told for part in message.written]
            check_alone(written, "let ottla.spark.arranged bring the rows of a partition together")
            with contextlib.closing(cluster_client(self._options.connecting)) as cluster:
                options = self._options
                inputs = InputTopics(cluster, told[0].ids if told else {})
                progress = _progress(cluster, options, inputs)
                transaction = SharedTransaction(cluster, options.transactional_id, options.timeout_ms, producer, progress)
                stream = ExactlyOnce(transaction, options.run, options.timeout_ms, time.time, inputs)
                stream.start()
                ends = self._ends(cluster, batch, self._progress_in_group(cluster))
                report = stream.write(query_in(self._checkpoint), batch, lambda _: written, ends, began_s)
        except BaseException:
            abort(self._options, producer)
            raise
        if report.is_replay:
            abort(self._options, producer)

    def abort(self, messages: list[Message | None], batch: int) -> None:
        abort_any(self._options, messages)


def write_task(
    options: SinkOptions, producer: SharedProducer, began_s: float, batch_bytes: dict[str, int], rows: Iterator[pa.RecordBatch]
) -> list[Written]:
    """Write the rows of a task in the transaction that began at ``began_s``. A task that fails aborts the whole transaction,
    because the other processes may have ended."""
    from pyspark import TaskContext

    prepare()
    context = TaskContext.get()
    writer = TaskWriter(options.connecting, producer, options.compression, batch_bytes)
    try:
        if context is not None and context.attemptNumber() > 0:
            raise MustAbort(TASK_FAILED)
        for batch in rows:
            writer.write(batch, time.time_ns() // 1_000_000)
        return writer.finish()
    except Fenced as fenced:
        raise why_fenced(fenced, "the batch", time.time() - began_s, options.timeout_ms) from None
    except BaseException:
        abort(options, producer)
        raise
    finally:
        writer.close()


def abort(options: SinkOptions, producer: SharedProducer | None) -> None:
    """Abort the transaction. If this fails, the transaction times out, or the next batch aborts it."""
    if producer is None:
        return
    with contextlib.suppress(PipelineError, MustAbort), contextlib.closing(cluster_client(options.connecting)) as cluster:
        SharedTransaction(cluster, options.transactional_id, options.timeout_ms, producer).end(commit=False)


def abort_any(options: SinkOptions, messages: Iterable[Message | None]) -> None:
    """Abort the transaction of the tasks' messages, if there are any."""
    abort(options, next((message.producer for message in messages if message is not None), None))


def _progress(cluster: BrokerConnections, options: SinkOptions, inputs: InputTopics) -> ProgressTopic | None:
    if options.progress_topic is None:
        return None
    return ProgressTopic(cluster, options.progress_topic, options.transactional_id, inputs)
