"""The exactly-once sink for foreachBatch: one transaction a micro-batch, written by the tasks, owned by the driver."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.spark.attempts import check_attempts
from ottla.spark.checkpoint import InputEnds
from ottla.spark.claiming import claim
from ottla.spark.connecting import Connecting
from ottla.spark.encoding import NULL_HEADER
from ottla.spark.errors import MustAbort, PipelineError, cause_of, label_of, raised_in_task
from ottla.spark.exactly_once import BatchTransaction, ExactlyOnce
from ottla.spark.gathering import MAX_RECORD_BYTES, SmallBatches, gathered, write_gathered
from ottla.spark.gauges import Gauges, gauges_of
from ottla.spark.limits import small_batches
from ottla.spark.mark_log import MarkLog
from ottla.spark.marks import group_of, read_mark
from ottla.spark.metrics import BatchReport, SinkMetrics
from ottla.spark.options import SinkOptions, parse_options
from ottla.spark.query import RunningQuery
from ottla.spark.registering import check_settings
from ottla.spark.renewing import RENEW_AFTER_S, Renewing, renewed
from ottla.spark.rows import WRITTEN, Outgoing, outgoing, written_type
from ottla.spark.standing import MarkPlace
from ottla.spark.topics import partition_counts
from ottla.spark.transaction import Producer, Transaction
from ottla.spark.wire import ClusterClient
from ottla.spark.worker import prepare
from ottla.spark.writer import TaskWriter, Written, check_alone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.driver import DriverTransaction, Row
    from ottla.spark.listening import StreamProgress

logger = logging.getLogger("ottla.spark")

REPORTS_KEPT = 100
"""As many batches' as Spark keeps by default (spark.sql.streaming.numRecentProgressUpdates)."""
ATTEMPTS = 3
"""Transactions that a batch is tried in before its failure ends the stream."""
_ASK_EVERY_ROWS = 1_000
"""So often the driver's own loop asks whether the stream is still wanted."""


def sink(
    options: Mapping[str, Any],
    *,
    on_batch: Callable[[BatchReport], None] = lambda report: None,
    on_abort: Callable[[int, BaseException], None] = lambda batch, error: None,
) -> ExactlyOnceSink:
    """What foreachBatch takes: each micro-batch is written in one transaction, and not again if it was committed before.

    ``options`` are those of Spark's own Kafka sink and of a producer: ``kafka.bootstrap.servers`` and ``transactional.id``, which
    must be there, ``topic``, ``topics`` (those that rows may go to, comma-separated), ``compression.type``,
    ``transaction.timeout.ms``, ``writer`` (``tasks`` or ``driver``), ``run.id``, ``mark.topic``,
    ``mark.log.topic``.
    Rows have the columns of Spark's own as well: ``value``, and where they are wanted ``key``, ``topic``, ``headers`` and
    ``partition``. ``on_batch`` hears of every batch, ``on_abort`` of every transaction that is begun again, by batch and cause.

    Raises `PipelineError` for options that are wrong. What goes wrong later ends the stream, and its last line says why.
    """
    return ExactlyOnceSink(parse_options(options), on_batch, on_abort)


def write_once(frame: DataFrame, options: Mapping[str, Any], name: str, number: int = 0) -> BatchReport:
    """Write a frame that is no stream in one transaction; asked again for the same ``name`` and ``number``, write nothing.

    ``options`` are the sink's. Frames under one ``transactional.id`` have one ``name``, and are numbered from 0 on without a gap:
    those up to the last that was committed are taken for written. Raises `PipelineError`.
    """
    with ExactlyOnceSink(parse_options(options)) as sink:
        return sink.write_once(frame, name, number)


def arranged(frame: DataFrame, options: Mapping[str, Any]) -> DataFrame:
    """The rows of a stream as ``format("ottla")`` writes them: a partition's records in one task. ``options`` are the sink's.

    Topics and how many partitions they have are those of now. Raises `PipelineError`.
    """
    from ottla.spark.placing import brought_together

    parsed = parse_options(options)
    with contextlib.closing(ClusterClient(parsed.connecting)) as cluster:
        return brought_together(outgoing(frame, parsed.topic), partition_counts(cluster, parsed.topics))


class ExactlyOnceSink:
    """Give it to foreachBatch. It asks nothing of the cluster before the first batch. ``metrics`` are its counts until now.

    Called outside of a stream's batch it raises `PipelineError`, as for all that ends the stream; see `sink`.
    """

    def __init__(
        self,
        options: SinkOptions,
        on_batch: Callable[[BatchReport], None] = lambda report: None,
        on_abort: Callable[[int, BaseException], None] = lambda batch, error: None,
    ) -> None:
        self._options = options
        self._cluster = ClusterClient(options.connecting)
        self._mark_log = None if options.mark_log_topic is None else MarkLog(self._cluster, options.mark_log_topic)
        self._transaction: BatchTransaction[Any] | None = None
        self._stream: ExactlyOnce[Any] | None = None
        self._on_batch = on_batch
        self._on_abort = on_abort
        # Held while a batch is written.
        self._turn = threading.Lock()
        self._gauges: Gauges | None = None
        self._renewing: Renewing | None = None
        self._query: RunningQuery | None = None
        self._last_batch_s = 0.0
        self._outgoing = Outgoing(options.topic)
        self._small_outgoing = Outgoing(options.topic, MAX_RECORD_BYTES)
        self._small_batches = SmallBatches()
        self._place = MarkPlace(self._cluster, options)
        self._batch_bytes: dict[str, int] = {}
        """Of topics that take only small ones."""
        self._batch = 0
        """That is being written: records without a key begin elsewhere in each."""
        self._reports: dict[tuple[str, int], BatchReport] = {}
        self.metrics = SinkMetrics()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with self._turn:
            self._write(frame, batch)

    def __enter__(self) -> ExactlyOnceSink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give connections, and a stock producer's threads, back once no batch is being written. The next batch begins anew."""
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

    def write_once(self, frame: DataFrame, name: str, number: int) -> BatchReport:
        """See `ottla.spark.write_once`."""
        with self._turn:
            self._batch = number
            if self._stream is None:
                # Whoever takes the id uses an epoch of it up, which nobody needs who has nothing to write.
                mark = read_mark(self._cluster, group_of(self._options.transactional_id), is_stable=False)
                if mark is not None and mark.query == name and number <= mark.batch:
                    return self._counted(BatchReport(number, is_replay=True), self.metrics.epoch)
            stream, ends = self._prepared(frame.sparkSession, name, number, InputEnds())
            last = stream.last
            if last is not None and last.query == name and number < last.batch:
                report = BatchReport(number, is_replay=True)
            else:
                run = self._run_by_driver if self._options.writer == "driver" else self._run_by_tasks
                report = stream.write(name, number, functools.partial(run, frame, None), ends)
            return self._counted(report, stream.epoch)

    def has_ended(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds until no batch is being written; whether none is: what was is committed or aborted."""
        has_ended = self._turn.acquire(timeout=timeout_s)
        if has_ended:
            self._turn.release()
        return has_ended

    def _write(self, frame: DataFrame, batch: int) -> None:
        self._batch = batch
        query = RunningQuery(frame.sparkSession, batch, self._query)
        mine = (self._cluster.bootstrap, self._options.transactional_id)
        query.check_turn(mine)
        spark = frame.sparkSession
        input_ends = query.checkpoint.input_of(batch)
        begin = functools.partial(query.checkpoint.begin_of, batch)
        is_small = self._small_batches.is_small(input_ends.offsets, begin) and not query.checkpoint.keeps_state()
        plain = self._run_by_driver if self._options.writer == "driver" else self._run_by_tasks
        run = self._run_gathered if is_small and self._options.writer != "driver" else plain
        for attempt in range(ATTEMPTS):
            try:
                stream, ends = self._prepared(spark, query.id, batch, input_ends)
                report = stream.write(query.id, batch, functools.partial(run, frame, query), ends)
                break
            except PipelineError:
                raise
            except Exception as error:
                # A task has failed, and with it the transaction: the next one has sequences of its own.
                if attempt + 1 == ATTEMPTS or not query.is_active:
                    raise
                self._count_aborted(batch, error)
                run = plain
        if report.is_replay and query.checkpoint.keeps_state():
            # What Spark keeps between batches comes from computing them.
            frame.write.format("noop").mode("overwrite").save()
        query.note_turn(mine)
        self._reports[query.run, batch] = self._counted(report, stream.epoch)
        if len(self._reports) > REPORTS_KEPT:
            del self._reports[next(iter(self._reports))]
        self._query, self._last_batch_s = query, time.monotonic()
        if self._renewing is None or not self._renewing.thread.is_alive():
            self._renewing = Renewing(self._renew)

    def _renew(self) -> bool:
        """See `renewing`; False once the stream has ended."""
        with self._turn:
            if self._stream is None or self._query is None or not self._query.is_active:
                return False
            if time.monotonic() - self._last_batch_s < RENEW_AFTER_S:
                return True
            return renewed(self._cluster, self._options.transactional_id, self._stream, self._nothing)

    def _nothing(self, producer: Any) -> list[Written]:
        """A stock producer has to begin a transaction that has no records."""
        written: list[Written] = producer.write([], {}) if self._options.writer == "driver" else []
        return written

    def report(self, run: str, batch: int) -> BatchReport | None:
        """How one of the last batches went, of a start of a stream as Spark numbers it (``runId``)."""
        return self._reports.get((run, batch))

    def count_progress(self, progress: StreamProgress) -> None:
        """See `listening.listener`."""
        if self._gauges is not None:
            self._gauges.add_progress(progress)

    def _counted(self, report: BatchReport, epoch: int) -> BatchReport:
        report = msgspec.structs.replace(report, epoch=epoch)
        self.metrics = self.metrics.with_report(report)
        if self._gauges is not None:
            self._gauges.add(report)
        how = "was committed before" if report.is_replay else f"{report.records} records, commit {report.commit_ms:.1f} ms"
        logger.info("%s, batch %d: %s", self._options.transactional_id, report.batch, how)
        self._on_batch(report)
        return report

    def _count_aborted(self, batch: int, error: BaseException) -> None:
        self.metrics = msgspec.structs.replace(self.metrics, aborted=self.metrics.aborted + 1)
        if self._gauges is not None:
            self._gauges.add_aborted()
        logger.warning("%s, batch %d: aborted and begun again: %s", self._options.transactional_id, batch, cause_of(str(error)))
        self._on_abort(batch, error)

    def _prepared(self, spark: SparkSession, query: str, batch: int, ends: InputEnds) -> tuple[ExactlyOnce[Any], InputEnds]:
        """Ready for a batch, and its ends with a place for the mark. Where nobody knows how the last transaction has ended, and at
        first, the transactional id is taken over, unless another stream has it: that one is not fenced. Raises `PipelineError`.
        """
        options = self._options
        if self._stream is None:
            self._transaction = self._transaction or self._new_transaction()
            self._stream = ExactlyOnce(self._transaction, options.run, options.timeout_ms)
        if not self._stream.is_settled:
            check_settings(spark)
            counts = self._partitions()
            if options.writer != "driver":
                self._batch_bytes = small_batches(self._cluster, list(counts))
            if self._mark_log is not None:
                self._mark_log.open()
            self._place.choose(ends)
            placed = self._place.of(ends, batch)
            claim(self._cluster, options.transactional_id, query, batch, options.run, placed, self._mark_log)
            self._stream.start()
            self._gauges = self._gauges or gauges_of(spark, options.transactional_id)
        return self._stream, self._place.of(ends, batch)

    def _new_transaction(self) -> BatchTransaction[Any]:
        options = self._options
        if options.writer != "driver":
            return Transaction(self._cluster, options.transactional_id, options.timeout_ms, mark_log=self._mark_log)
        # Tasks import this module, and need no stock producer.
        from ottla.spark.driver import DriverTransaction

        return DriverTransaction(self._cluster, options, self._mark_log)

    def _partitions(self) -> dict[str, int]:
        """How many each topic has that rows may go to."""
        counts = partition_counts(self._cluster, self._options.topics)
        counts.pop(self._options.mark_log_topic or "", None)
        return counts

    def _run_by_driver(self, frame: DataFrame, query: RunningQuery | None, transaction: DriverTransaction) -> list[Written]:
        partitions = self._partitions()
        iterator = self._outgoing.rows(frame).toLocalIterator(prefetchPartitions=True)
        return transaction.write(map(_row, _while_active(iterator, query)), partitions)

    def _run_gathered(self, frame: DataFrame, query: RunningQuery | None, producer: Producer) -> list[Written]:
        """One Spark job without Python's workers; see `gathering`."""
        options = self._options
        with _own_errors(producer):
            table = gathered(self._small_outgoing.rows(frame))
        if table is None:
            self._small_batches.note_large()
            return self._run_by_tasks(frame, query, producer)
        writer = TaskWriter(options.connecting, producer, options.compression, self._batch_bytes, self._cluster)
        return write_gathered(table, writer, self._partitions(), self._batch)

    def _run_by_tasks(self, frame: DataFrame, query: RunningQuery | None, producer: Producer) -> list[Written]:
        """One Spark job: find each record's partition, bring a partition's records to one task, write."""
        from ottla.spark.placing import brought_together

        options, spark = self._options, frame.sparkSession
        rows = brought_together(self._outgoing.rows(frame), self._partitions(), self._batch)
        write = _write(options.connecting, producer, options.compression, self._batch_bytes)
        with _own_errors(producer):
            written = rows.mapInArrow(write, written_type()).collect()
        told = [raised_in_task(r.error, producer.transactional_id) for r in written if r.error]
        # What ends the stream comes first: what another task says follows from it, or may be tried again.
        for failure in sorted(filter(None, told), key=lambda error: isinstance(error, MustAbort)):
            raise failure
        check_attempts(spark, {r.stage for r in written})
        parts = [Written(r.topic, r.partition, r.records, r.bytes) for r in written]
        check_alone(parts, "a setting of this session has changed how Spark divides rows among tasks")
        return parts


@contextlib.contextmanager
def _own_errors(producer: Producer) -> Iterator[None]:
    """Errors of `errors` that tasks have raised inside the block are raised as themselves, and not as Spark's."""
    try:
        yield
    except Exception as error:
        own = raised_in_task(str(error), producer.transactional_id)
        if own is None:
            raise
        raise own from None


def _while_active(rows: Iterable[Any], query: RunningQuery | None) -> Iterator[Any]:
    """Rows that Spark has computed are written for a while after its jobs are cancelled: that ends here as well."""
    for number, row in enumerate(rows):
        if query is not None and number % _ASK_EVERY_ROWS == 0 and not query.is_active:
            raise RuntimeError("the stream is being stopped")
        yield row


def _write(
    connecting: Connecting, producer: Producer, codec: str, batch_bytes: dict[str, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Writes what comes as part of the driver's transaction; gives what it wrote, and in which stage."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() > 0:
            # The first attempt has used up the sequences: only a new transaction may write these records.
            raise MustAbort("a task of this transaction has failed, so the whole of it is aborted")
        writer = TaskWriter(connecting, producer, codec, batch_bytes)
        now_ms = time.time_ns() // 1_000_000
        written: list[Written] = []
        error: str | None = None
        try:
            for batch in batches:
                writer.write(batch, now_ms)
            written = writer.finish()
        except (PipelineError, MustAbort) as raised:
            error = label_of(raised)
        finally:
            writer.close()
        rows: list[dict[str, Any]] = [{**msgspec.structs.asdict(w), "stage": context.stageId(), "error": None} for w in written]
        if error is not None:
            rows = [{"stage": context.stageId(), "error": error}]
        if rows:
            kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int32(), pa.string())
            names = (part.split()[0] for part in WRITTEN.split(", "))
            yield pa.RecordBatch.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))

    return write


def _row(row: Any) -> Row:
    """Raises `PipelineError`."""
    headers = _headers(row.headers) if "headers" in row else []
    return row.topic, _bytes(row.key), _bytes(row.value), headers, row.partition


def _headers(headers: Iterable[Any] | None) -> list[tuple[str, bytes | None]]:
    """Raises `PipelineError`."""
    listed = list(headers or ())
    if any(header is None or header.key is None for header in listed):
        raise PipelineError(NULL_HEADER)
    return [(header.key, _bytes(header.value)) for header in listed]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
