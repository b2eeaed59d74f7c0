"""The exactly-once sink for foreachBatch: one transaction a micro-batch, written by the tasks, owned by the driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.spark.checkpoint import InputEnds, input_of
from ottla.spark.connecting import Connecting
from ottla.spark.driver import DriverTransaction
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.exactly_once import BatchReport, ExactlyOnce, check_query
from ottla.spark.marks import Mark, group_of, read_mark
from ottla.spark.rows import OUTPUT
from ottla.spark.transaction import TRANSACTION_TIMEOUT_MS, Producer, Transaction
from ottla.spark.wire import ClusterClient
from ottla.spark.worker import prepare
from ottla.spark.writer import TaskWriter, Written

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
ATTEMPTS = 3
"""Transactions that a batch is tried in before its failure ends the stream."""
WRITTEN = "topic STRING, partition INT, records LONG, bytes LONG"


class SinkOptions(msgspec.Struct, frozen=True):
    """Where to, and as whom. ``by_driver``: one stock producer in the driver instead of a transaction that tasks share.

    ``computes_replays``: a batch that was committed before is still computed, for what Spark keeps between batches.
    ``checkpoint``: the stream's, so that a batch's mark says what the batch has read.
    """

    connecting: Connecting
    transactional_id: str
    topics: tuple[str, ...]
    run: str
    codec: str = "lz4"
    timeout_ms: int = TRANSACTION_TIMEOUT_MS
    by_driver: bool = False
    computes_replays: bool = False
    checkpoint: str = ""


class ExactlyOnceSink:
    """Give `write` to foreachBatch. ``on_report`` hears of every batch, ``on_retry`` of every transaction that was aborted."""

    def __init__(
        self,
        options: SinkOptions,
        on_report: Callable[[BatchReport], None],
        on_retry: Callable[[int, BaseException], None],
    ) -> None:
        self._options = options
        self._cluster = ClusterClient(options.connecting)
        self._stream: ExactlyOnce[Any]
        where = (options.transactional_id, options.topics[0], options.timeout_ms)
        if options.by_driver:
            self._stream = ExactlyOnce(DriverTransaction(self._cluster, *where), options.run, options.timeout_ms)
        else:
            self._stream = ExactlyOnce(Transaction(self._cluster, *where), options.run, options.timeout_ms)
        self._on_report = on_report
        self._on_retry = on_retry
        self._partitions: dict[str, int] = {}
        # Held while a batch is written.
        self._turn = threading.Lock()
        self._is_stopping = False

    def start(self) -> Mark | None:
        """Check the topics, take the transactional id over; what was committed last. Raises `PipelineError`."""
        self._partitions = {topic: len(self._cluster.leaders(topic)) for topic in self._options.topics}
        return self._stream.start()

    def check_query(self, query: str | None) -> None:
        """Raises `PipelineError` where another stream has this transactional id, before that one is fenced.

        ``query`` is None for a stream that has not begun yet.
        """
        check_query(read_mark(self._cluster, group_of(self._options.transactional_id), is_stable=False), query)

    def check(self, topic: str) -> None:
        """Raises `PipelineError` for an input that is not there."""
        self._cluster.leaders(topic)

    def refuse_more(self) -> None:
        """A batch whose tasks fail from now on, as they do when the stream is stopped, is aborted and not tried again."""
        self._is_stopping = True

    def has_ended(self, timeout_s: float) -> bool:
        """Wait until no batch is being written: what was is committed or aborted."""
        has_ended = self._turn.acquire(timeout=timeout_s)
        if has_ended:
            self._turn.release()
        return has_ended

    def write(self, frame: DataFrame, batch: int) -> None:
        with self._turn:
            self._write(frame, batch)

    def _write(self, frame: DataFrame, batch: int) -> None:
        check_schema(frame)
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query is None:
            raise PipelineError("the sink writes micro-batches of a stream: give it to foreachBatch")
        checkpoint = self._options.checkpoint
        ends = input_of(frame.sparkSession, checkpoint, batch) if checkpoint else InputEnds()
        run = self._run_by_driver if self._options.by_driver else self._run_by_tasks
        for attempt in range(ATTEMPTS):
            try:
                report = self._stream.write(query, batch, lambda producer: run(frame, producer), ends)
                break
            except PipelineError:
                raise
            except Exception as error:
                # A task has failed, and with it the transaction: the next one has sequences of its own.
                if attempt + 1 == ATTEMPTS or self._is_stopping:
                    raise
                self._on_retry(batch, error)
        if report.is_replay and self._options.computes_replays:
            frame.write.format("noop").mode("overwrite").save()
        self._on_report(report)

    def _run_by_driver(self, frame: DataFrame, transaction: DriverTransaction) -> list[Written]:
        rows = frame.select("topic", "key", "value", "headers").toLocalIterator(prefetchPartitions=True)
        return transaction.write(
            (r.topic, _bytes(r.key), _bytes(r.value), [(h.key, _bytes(h.value)) for h in r.headers or ()])
            for r in self._until_stopped(rows)
        )

    def _until_stopped(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Rows that Spark has computed are written for a while after its jobs are cancelled: that ends here as well."""
        for row in rows:
            if self._is_stopping:
                raise RuntimeError("the stream is being stopped")
            yield row

    def _run_by_tasks(self, frame: DataFrame, producer: Producer) -> list[Written]:
        """One Spark job: find each record's partition, bring a partition's records to one task, write."""
        from ottla.spark.placing import placed

        tasks = min(sum(self._partitions.values()), frame.sparkSession.sparkContext.defaultParallelism)
        together = placed(frame, self._partitions).repartition(max(1, tasks), "topic", "partition")
        try:
            rows = together.mapInArrow(_write(self._options.connecting, producer, self._options.codec), WRITTEN).collect()
        except Exception as error:
            if f"{Fenced.__module__}.{Fenced.__name__}" in str(error):
                raise Fenced(producer.transactional_id) from None
            raise
        return [Written(r.topic, r.partition, r.records, r.bytes) for r in rows]


def check_schema(frame: DataFrame) -> None:
    given = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    for name, kind in OUTPUT.items():
        if given.get(name) != kind:
            actual = f"is {given[name]}" if name in given else "is not there"
            raise PipelineError(f"the sink takes rows of {', '.join(OUTPUT)}, and column {name!r} of the job {actual}, not {kind}")


def _write(
    connecting: Connecting, producer: Producer, codec: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Writes what comes as part of the driver's transaction; gives what it wrote."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        prepare()
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            # The first attempt has used up the sequences: only a new transaction may write these records.
            raise PipelineError("a task of this transaction has failed, so the whole of it is aborted")
        writer = TaskWriter(connecting, producer, codec)
        now_ms = time.time_ns() // 1_000_000
        try:
            for batch in batches:
                writer.write(batch, now_ms)
            written = writer.finish()
        finally:
            writer.close()
        if written:
            rows: list[dict[str, Any]] = [msgspec.structs.asdict(w) for w in written]
            yield pa.RecordBatch.from_pylist(
                rows,
                pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int64()), ("bytes", pa.int64())]),
            )

    return write


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
