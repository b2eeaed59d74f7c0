"""The exactly-once sink for foreachBatch."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.checkpoint.query import RunningQuery, check_number
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError, cause_of
from ottla.spark.progress.active_sinks import NOTES
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import group_of, read_committed
from ottla.spark.progress.progress_topic import ProgressTopic
from ottla.spark.progress.skipped_batches import describe, may_skip, skipped_batches
from ottla.spark.sink.exactly_once import BatchTransaction, ExactlyOnce
from ottla.spark.sink.id_claim import claim
from ottla.spark.sink.keepalive import RENEW_AFTER_S, Renewing, renewed
from ottla.spark.sink.mark_topic import MarkPlace
from ottla.spark.sink.metrics import BatchReport, SinkMetrics, shown
from ottla.spark.sink.options import SinkOptions, parse_options
from ottla.spark.sink.row_writing import RowWriter
from ottla.spark.sink.session_setup import prepare_session
from ottla.spark.sink.spark_metrics import Gauges, gauges_of
from ottla.spark.sink.task_writer import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.sink.progress_listener import StreamProgress

logger = logging.getLogger("ottla.spark")

REPORTS_KEPT = 100
"""Number of batch reports that a sink keeps, the default of spark.sql.streaming.numRecentProgressUpdates."""
_JOB_NAME = "spark.job.description"
ATTEMPTS = 3
"""Number of attempts to write a batch, each in a new transaction, before the failure ends the stream."""


def sink(
    options: Mapping[str, Any],
    *,
    on_batch: Callable[[BatchReport], None] = lambda report: None,
    on_abort: Callable[[int, BaseException], None] = lambda batch, error: None,
) -> ExactlyOnceSink:
    """Return a sink for foreachBatch. It writes each micro-batch in one transaction, unless the batch was committed before.

    ``options`` are options of Spark's Kafka sink and of a producer. Required are ``kafka.bootstrap.servers`` and
    ``transactional.id``. Optional are ``topic``, ``topics`` (the allowed topics of rows, comma-separated), ``compression.type``,
    ``transaction.timeout.ms``, ``writer`` (``tasks`` or ``driver``), ``run.id``, ``mark.topic``, ``progress.topic`` and
    ``skipped.batches`` (``warn`` or ``fail``). Rows have the columns of Spark's Kafka sink: ``value``, and optionally ``key``,
    ``topic``, ``headers`` and ``partition``. ``on_batch`` is called after every batch, ``on_abort`` before an aborted batch is
    retried, with the number of the batch and the error.

    Raises `PipelineError` for wrong options. A later error ends the stream; its last line says what happened.
    """
    return ExactlyOnceSink(parse_options(options), on_batch, on_abort)


class ExactlyOnceSink:
    """A function for foreachBatch. It sends no request before the first batch. ``metrics`` has the counts of all batches so far.

    Raises `PipelineError` outside of a stream's batch, and for every error that ends the stream; see `sink`.
    """

    def __init__(
        self,
        options: SinkOptions,
        on_batch: Callable[[BatchReport], None] = lambda report: None,
        on_abort: Callable[[int, BaseException], None] = lambda batch, error: None,
    ) -> None:
        self._options = options
        self._cluster = cluster_client(options.connecting)
        self._key = (self._cluster.bootstrap, options.transactional_id)
        self._inputs = InputTopics(self._cluster)
        self._progress: ProgressTopic | None = None
        if options.progress_topic is not None:
            self._progress = ProgressTopic(self._cluster, options.progress_topic, options.transactional_id, self._inputs)
        self._transaction: BatchTransaction[Any] | None = None
        self._stream: ExactlyOnce[Any] | None = None
        self._on_batch = on_batch
        self._on_abort = on_abort
        # The thread that writes a batch has this lock.
        self._turn = threading.Lock()
        self._gauges: Gauges | None = None
        self._renewing: Renewing | None = None
        self._query: RunningQuery | None = None
        self._last_batch_s = 0.0
        self._rows = RowWriter(self._cluster, options)
        self._place = MarkPlace(self._cluster, options)
        self._reports: dict[tuple[str, int], BatchReport] = {}
        self.metrics = SinkMetrics()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with self._turn:
            query = RunningQuery(frame.sparkSession, self._query)
            running = batch if query.batch is None else int(query.batch)
            try:
                with NOTES.writing(self._key, f"batch {running} of stream {query.id}"):
                    check_number(batch, query.batch)
                    NOTES.check_first_use(self._key, query.run, batch)
                    report = self._write(frame, query, batch)
            except BaseException as error:
                NOTES.note_failed(self._key, query.id, running, error)
                raise
            NOTES.note_written(self._key, query.id, query.run, batch)
            self._note(query, report)

    def __reduce__(self) -> NoReturn:
        """Spark Connect pickles the function of foreachBatch and runs it in another process, where no JVM can be called."""
        raise PipelineError("on Spark Connect write with ottla.spark.arranged(frame, options) and writeStream.format('ottla')")

    def __enter__(self) -> ExactlyOnceSink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the current batch, and close connections. The next batch opens them again."""
        with self._turn:
            self._stream = None
            self._query = None
            if self._renewing is not None:
                self._renewing.stop()
                self._renewing = None
            if self._transaction is not None:
                self._transaction.close()
                self._transaction = None
            self._cluster.close()

    def has_ended(self, timeout_s: float) -> bool:
        """Wait until no batch is being written, at most ``timeout_s`` seconds. Returns whether all batches are committed or
        aborted."""
        has_ended = self._turn.acquire(timeout=timeout_s)
        if has_ended:
            self._turn.release()
        return has_ended

    def _write(self, frame: DataFrame, query: RunningQuery, batch: int) -> BatchReport:
        is_first = NOTES.note_given(query.id, batch)
        spark, checkpoint = frame.sparkSession, query.checkpoint
        input_ends = checkpoint.input_of(batch)

        def is_new() -> bool:
            """Whether Spark planned the batch in this JVM, and the sink gets the batch for the first time, so it was not written
            before."""
            return is_first and input_ends.planned_ms >= int(spark.sparkContext.startTime or 0)

        if batch == 0 or self._stream is None or not self._stream.is_settled:
            input_ends = msgspec.structs.replace(input_ends, begin=checkpoint.first_begin())
        begin = functools.partial(checkpoint.begin_of, batch)
        is_small = self._rows.small_batches.is_small(input_ends.offsets, begin) and not checkpoint.keeps_state()
        run = self._rows.small if is_small else self._rows.whole
        # Name the batch's jobs for Spark's UI. Spark sets its own name again for the next batch.
        spark.sparkContext.setLocalProperty(_JOB_NAME, f"ottla: transaction of {self._options.transactional_id}, batch {batch}")
        for attempt in range(ATTEMPTS):
            try:
                stream, ends = self._prepared(spark, query.id, batch, input_ends, is_new)
                skipped = self._skipped(stream, query, batch, is_new)
                tasks = functools.partial(run, frame, batch, query)
                report = stream.write(query.id, batch, tasks, ends, may_skip=bool(skipped))
                break
            except PipelineError:
                raise
            except Exception as error:
                # A task has failed, so the transaction was aborted. Try again in a new transaction, whose sequences begin at 0.
                if attempt + 1 == ATTEMPTS or not query.is_active:
                    raise
                self._count_aborted(batch, error)
                run = self._rows.whole
        if skipped:
            logger.warning("%s. The stream continues after them; set skipped.batches=fail to end it instead", skipped)
        if report.is_replay and checkpoint.keeps_state():
            # Compute the batch without writing it, because this updates the state that Spark keeps between batches.
            frame.write.format("noop").mode("overwrite").save()
        return msgspec.structs.replace(report, epoch=stream.epoch, retries=attempt)

    def _skipped(self, stream: ExactlyOnce[Any], query: RunningQuery, batch: int, is_new: Callable[[], bool]) -> str:
        """Describe the skipped batches if the stream may continue after them. Returns an empty text without skipped batches, or if
        this batch may have been written. Raises `PipelineError` with skipped.batches=fail, or after a failed batch."""
        skipped = skipped_batches(stream.last, query.id, batch)
        NOTES.check_failed(self._key, query.id, skipped)
        if not skipped or not may_skip(stream.last, self._progress, query.id, is_new):
            return ""
        begin, end = query.checkpoint.begin_of(skipped.start), query.checkpoint.begin_of(batch)
        text = (
            f"{describe(skipped, begin, end)}: nothing was committed as {self._options.transactional_id!r}, but Spark has recorded"
            " this as done: another sink wrote it, or the function given to foreachBatch returned early or did not raise an error,"
            " or the progress was deleted, or the transactional.id was changed"
        )
        if not self._options.accepts_skipped:
            raise PipelineError(f"{text}. With skipped.batches=warn the stream continues after them")
        return text

    def _note(self, query: RunningQuery, report: BatchReport) -> None:
        self._reports[query.run, report.batch] = report
        if len(self._reports) > REPORTS_KEPT:
            del self._reports[next(iter(self._reports))]
        self._query, self._last_batch_s = query, time.monotonic()
        if self._renewing is None or not self._renewing.thread.is_alive():
            self._renewing = Renewing(self._renew)
        self.metrics = self.metrics.with_report(report)
        if self._gauges is not None:
            self._gauges.add(report)
        logger.info("%s, batch %d: %s", self._options.transactional_id, report.batch, shown(report))
        self._on_batch(report)

    def _renew(self) -> bool:
        """Renew the progress record (see `keepalive`). Returns False after the stream has ended."""
        with self._turn:
            if self._stream is None or self._query is None or not self._query.is_active:
                return False
            if time.monotonic() - self._last_batch_s < RENEW_AFTER_S:
                return True
            return renewed(self._cluster, self._options.transactional_id, self._stream, self._nothing)

    def _nothing(self, producer: Any) -> list[Written]:
        """Write no records. With ``writer=driver`` this also begins the transaction."""
        written: list[Written] = producer.write([], {}) if self._options.writer == "driver" else []
        return written

    def report(self, run: str, batch: int) -> BatchReport | None:
        """Return the report of one of the last `REPORTS_KEPT` batches. ``run`` is Spark's ``runId``."""
        return self._reports.get((run, batch))

    def count_progress(self, progress: StreamProgress) -> None:
        """Add Spark's progress of a batch to the metrics."""
        if self._gauges is not None:
            self._gauges.add_progress(progress)

    def _count_aborted(self, batch: int, error: BaseException) -> None:
        self.metrics = msgspec.structs.replace(self.metrics, aborted=self.metrics.aborted + 1)
        if self._gauges is not None:
            self._gauges.add_aborted()
        logger.warning("%s, batch %d: aborted and retried: %s", self._options.transactional_id, batch, cause_of(str(error)))
        self._on_abort(batch, error)

    def _prepared(
        self, spark: SparkSession, query: str, batch: int, ends: InputEnds, is_new: Callable[[], bool]
    ) -> tuple[ExactlyOnce[Any], InputEnds]:
        """Prepare for a batch. Returns the stream, and ``ends`` with the offsets to commit (`MarkPlace.of`).

        For the first batch, or if the end of the last transaction is unknown, the transactional id is initialized. Raises
        `PipelineError`, for instance if another stream uses the id.
        """
        options = self._options
        if self._stream is None:
            self._transaction = self._transaction or self._rows.transaction(self._progress)
            self._stream = ExactlyOnce(self._transaction, options.run, options.timeout_ms, inputs=self._inputs)
        if not self._stream.is_settled:
            prepare_session(spark)
            self._rows.prepare()
            if self._progress is not None:
                self._progress.open()
            in_group = read_committed(self._cluster, group_of(options.transactional_id), is_stable=False)
            self._place.choose(ends, in_group)
            placed = self._place.of(ends, batch)
            claim(self._cluster, options.transactional_id, query, batch, options.run, placed, in_group, self._progress, is_new)
            self._stream.start()
            self._gauges = self._gauges or gauges_of(spark, options.transactional_id)
        return self._stream, self._place.of(ends, batch)
