"""Writes the rows of one frame as part of a transaction, by Spark's tasks or by the driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.client.cluster import BrokerConnections
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.query import RunningQuery
from ottla.spark.cluster.batch_limits import small_batches
from ottla.spark.cluster.topics import partition_counts
from ottla.spark.errors import TASK_FAILED, MustAbort, PipelineError, label_of, raised_in_task
from ottla.spark.progress.progress_topic import ProgressTopic
from ottla.spark.rows.encoding import NULL_HEADER
from ottla.spark.rows.rows import WRITTEN, Outgoing, written_type
from ottla.spark.sink.arrow_batches import ArrowBatches
from ottla.spark.sink.attempts import check_attempts, without_copies
from ottla.spark.sink.driver import DriverTransaction, Row
from ottla.spark.sink.exactly_once import BatchTransaction
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.sequences import SequenceServer, ServerAddress, SharedSequences
from ottla.spark.sink.session_setup import is_one_process
from ottla.spark.sink.small_batches import GATHERED, SmallBatches, gathered, write_gathered
from ottla.spark.sink.task_writer import TaskWriter, Written, added_up, check_alone
from ottla.spark.sink.transaction import SharedProducer, SharedTransaction
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


_ASK_EVERY_ROWS = 1_000
"""Number of rows after which a writing driver checks whether the stream is still active."""


class RowWriter:
    """Writes the frames of one sink. ``prepare`` must be called before the first batch of a run.

    `whole` and `small` take a frame, its batch number, the stream, if any, and the transaction's producer. They return the written
    partitions, and raise `PipelineError` and `MustAbort`.
    """

    def __init__(self, cluster: BrokerConnections, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._outgoing = Outgoing(options.topic)
        self._small_outgoing = Outgoing(options.topic, GATHERED)
        self.small_batches = SmallBatches()
        self._arrow_batches = ArrowBatches()
        self._batch_bytes: dict[str, int] = {}
        """Maximum batch size, in bytes, of topics that accept only small batches."""

    def transaction(self, progress: ProgressTopic | None) -> BatchTransaction[Any]:
        options = self._options
        if options.writer != "driver":
            return SharedTransaction(self._cluster, options.transactional_id, options.timeout_ms, progress=progress)
        return DriverTransaction(options, progress)

    def prepare(self) -> None:
        """Check that the topics exist, and read the size limits of their batches."""
        counts = self._partitions()
        if self._options.writer != "driver":
            self._batch_bytes = small_batches(self._cluster, list(counts))

    def _partitions(self) -> dict[str, int]:
        counts = partition_counts(self._cluster, self._options.topics)
        counts.pop(self._options.progress_topic or "", None)
        return counts

    def whole(self, frame: DataFrame, batch: int, query: RunningQuery | None, producer: Any) -> list[Written]:
        """Write a frame by the driver or by tasks, depending on the option ``writer``."""
        by = self._by_driver if self._options.writer == "driver" else self._by_tasks
        return by(frame, batch, query, producer)

    def small(self, frame: DataFrame, batch: int, query: RunningQuery | None, producer: Any) -> list[Written]:
        """Write a small batch in one Spark job without Python workers; see `small_batches`."""
        options = self._options
        if options.writer == "driver":
            return self._by_driver(frame, batch, query, producer)
        with _own_errors(producer):
            table = gathered(self._small_outgoing.rows(frame))
        if table is None:
            self.small_batches.note_large()
            return self._by_tasks(frame, batch, query, producer)
        writer = TaskWriter(options.connecting, producer, options.compression, self._batch_bytes, self._cluster)
        return write_gathered(table, writer, self._partitions(), batch)

    def _by_driver(self, frame: DataFrame, batch: int, query: RunningQuery | None, transaction: DriverTransaction) -> list[Written]:
        partitions = self._partitions()
        iterator = self._outgoing.rows(frame).toLocalIterator(prefetchPartitions=True)
        return transaction.write(map(_row, _while_active(iterator, query)), partitions)

    def _by_tasks(self, frame: DataFrame, batch: int, query: RunningQuery | None, producer: SharedProducer) -> list[Written]:
        """Write a frame in one Spark job.

        If all tasks run on this machine, the driver lets them take turns at the partitions. Otherwise a shuffle moves all records
        of a partition to one task, because the tasks may not be able to connect to the driver.
        """
        from ottla.spark.rows.spark_partitioner import brought_together, narrowed

        rows = self._outgoing.rows(frame)
        partitions = self._partitions()
        if not is_one_process(frame.sparkSession):
            parts = self._written(brought_together(rows, partitions, batch), producer, None)
            check_alone(parts, "a setting of this session has changed how Spark divides rows among tasks")
            return parts
        with SequenceServer("127.0.0.1") as address:
            return added_up(self._written(narrowed(rows, partitions, batch), producer, address))

    def _written(self, rows: DataFrame, producer: SharedProducer, sequences: ServerAddress | None) -> list[Written]:
        """Write rows with chosen partitions, and return what each task has written to each partition."""
        options = self._options
        write = _write(options.connecting, producer, options.compression, self._batch_bytes, sequences)
        session = rows.sparkSession
        with _own_errors(producer), without_copies(session), self._arrow_batches.limited(session):
            written = rows.mapInArrow(write, written_type()).collect()
        errors = [raised_in_task(r.error, producer.transactional_id) for r in written if r.error]
        # Raise a final error first, because errors of other tasks may be retriable or a consequence of the final error.
        for failure in sorted(filter(None, errors), key=lambda error: isinstance(error, MustAbort)):
            raise failure
        check_attempts(session, {r.stage for r in written})
        parts = [Written(r.topic, r.partition, r.records, r.bytes) for r in written]
        self._arrow_batches.note(parts)
        return parts


@contextlib.contextmanager
def _own_errors(producer: SharedProducer) -> Iterator[None]:
    """If a task in the block raises an error of `ottla.spark.errors`, raise this error instead of Spark's error."""
    try:
        yield
    except Exception as error:
        own = raised_in_task(str(error), producer.transactional_id)
        if own is None:
            raise
        raise own from None


def _while_active(rows: Iterable[Any], query: RunningQuery | None) -> Iterator[Any]:
    """Yield rows until the stream is stopped. Spark delivers computed rows even after it has cancelled the stream's jobs."""
    for number, row in enumerate(rows):
        if query is not None and number % _ASK_EVERY_ROWS == 0 and not query.is_active:
            raise RuntimeError("the stream is stopping")
        yield row


def _write(
    connecting: Connecting,
    producer: SharedProducer,
    codec: str,
    batch_bytes: dict[str, int],
    sequences: ServerAddress | None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return the function for tasks. It writes Arrow batches as part of the driver's transaction, and returns the written
    partitions and the id of the stage."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() > 0:
            # The task's first attempt has used the sequences, so the records can only be written in a new transaction.
            raise MustAbort(TASK_FAILED)
        now_ms = time.time_ns() // 1_000_000
        written: list[Written] = []
        error: str | None = None
        try:
            turns = None if sequences is None else SharedSequences(sequences)
            with contextlib.closing(TaskWriter(connecting, producer, codec, batch_bytes, sequences=turns)) as writer:
                for batch in batches:
                    writer.write(batch, now_ms)
                written = writer.finish()
        except (PipelineError, MustAbort) as raised:
            error = label_of(raised)
        rows: list[dict[str, Any]] = [{**msgspec.structs.asdict(w), "stage": context.stageId(), "error": None} for w in written]
        if error is not None:
            rows = [{"stage": context.stageId(), "error": error}]
        if rows:
            kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int32(), pa.string())
            names = (part.split()[0] for part in WRITTEN.split(", "))
            yield pa.RecordBatch.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))

    return write


def _row(row: Any) -> Row:
    headers = _headers(row.headers) if "headers" in row else []
    return row.topic, _bytes(row.key), _bytes(row.value), headers, row.partition


def _headers(headers: Iterable[Any] | None) -> list[tuple[str, bytes | None]]:
    """Return the headers of a row. Raises `PipelineError` for a header without a key."""
    listed = list(headers or ())
    if any(header is None or header.key is None for header in listed):
        raise PipelineError(NULL_HEADER)
    return [(header.key, _bytes(header.value)) for header in listed]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
