"""The code that all streaming jobs share: source, transform, exactly-once sink, progress and stopping."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

import ottla.spark
from ottla.client.security.client_config import Connecting
from ottla.pipeline.progress import Reports
from ottla.pipeline.schemas import DEFAULT_TERMS, Terms
from ottla.pipeline.settings import STATE_STORES
from ottla.spark.checkpoint.checkpoint import Checkpoint
from ottla.spark.cluster.batch_limits import largest_batches
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError, cause_of
from ottla.spark.schemas.dead_letters import check_limit
from ottla.spark.schemas.formats import JSON, Format
from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.progress_listener import StreamProgress
from ottla.spark.sink.transaction import TRANSACTION_TIMEOUT_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_INTERVAL_S = 0.2
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STATES = "org.apache.spark.sql.execution.streaming.state"
STOP_TIMEOUT_S = 60.0


class Job(msgspec.Struct, frozen=True):
    """A job that reads one topic and writes other topics. With ``has_state`` Spark keeps state between batches, and a batch
    consists of changed rows (update mode).

    The arguments of ``transform`` are the source's rows, the run's id, the values' format and the terms of purchases.
    """

    name: str
    source: str
    targets: tuple[str, ...]
    transform: Callable[[DataFrame, str, Format, Terms], DataFrame]
    has_state: bool = False


class StreamOptions(msgspec.Struct, frozen=True):
    """The options of a stream. ``batch_records`` is the maximum size of a micro-batch. With ``is_bounded`` the stream ends after
    all records that existed when it started.

    ``progress_topic`` is the topic of the sink's progress records; None for the default. The limits of ``terms`` are read from the
    broker when a job starts. ``query_name`` is the stream's name in Spark, by default the job's name.
    """

    bootstrap: str
    transactional_id: str
    checkpoint: str
    run: str
    batch_records: int = 100_000
    is_bounded: bool = True
    interval_ms: int = 500
    by_driver: bool = False
    fails_on_data_loss: bool = True
    values: Format = JSON
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    terms: Terms = DEFAULT_TERMS
    query_name: str = ""
    progress_topic: str | None = None
    state_store: str = "memory"


def source_options(bootstrap: str, topic: str) -> dict[str, str]:
    """Return the options of Spark's Kafka connector for every job. Only committed records are read."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        # Fetch many records per poll, because the connector sends about two requests for offsets with each poll.
        "kafka.max.poll.records": "50000",
        # Let Fetch wait briefly: to find the end offset, the connector seeks to the partition's end and back, and a Fetch that
        # waits at the end delays the next Fetch.
        "kafka.fetch.max.wait.ms": "50",
    }


def check_topics(bootstrap: str, *topics: str) -> None:
    """Check that the topics exist. Raises `PipelineError`."""
    cluster = cluster_client(Connecting(bootstrap))
    try:
        for topic in topics:
            cluster.leader_nodes(topic)
    finally:
        cluster.close()


def asked_limits(options: StreamOptions, job: Job) -> dict[str, int]:
    """Return max.message.bytes of each topic that the job writes to. Raises `PipelineError` if the limit of the dead letter topic
    is too small for dead letters."""
    cluster = cluster_client(Connecting(options.bootstrap))
    try:
        limits = largest_batches(cluster, job.targets)
    finally:
        cluster.close()
    for topic, limit in limits.items():
        if topic == options.terms.topics.dead_letters:
            check_limit(topic, limit)
    return limits


def read(spark: SparkSession, job: Job, options: StreamOptions) -> DataFrame:
    settings = source_options(options.bootstrap, job.source)
    settings["failOnDataLoss"] = str(options.fails_on_data_loss).lower()
    settings["maxOffsetsPerTrigger"] = str(options.batch_records)
    return spark.readStream.format("kafka").options(**settings).load()


def check_kept(spark: SparkSession, job: Job, options: StreamOptions) -> None:
    """Raise `PipelineError` if ``deduplicate`` has changed since the checkpoint's first batch. Spark cannot add the state of
    deduplication to an existing checkpoint."""
    kept, wanted = Checkpoint(spark, options.checkpoint), options.terms.deduplicate
    if job.has_state or not kept.has_committed() or kept.keeps_state() is wanted:
        return
    how, instead = ("without", "leave it out") if wanted else ("with", "give it again")
    raise PipelineError(
        f"the checkpoint {kept.root} was created {how} --deduplicate, which cannot be changed later: {instead}, or start over"
        " with a"
        " new checkpoint, a new transactional id and new topics"
    )


class Running:
    """A running job. Raises `PipelineError` if it cannot be started."""

    def __init__(
        self, spark: SparkSession, job: Job, options: StreamOptions, on_retry: Callable[[int, BaseException], None]
    ) -> None:
        self._reports = Reports(options.terms.topics.dead_letters)
        sink = ottla.spark.sink(_sink_options(job, options), on_batch=self._reports.keep, on_abort=on_retry)
        check_topics(options.bootstrap, job.source, *job.targets)
        check_kept(spark, job, options)
        terms = msgspec.structs.replace(options.terms, limits=asked_limits(options, job))
        frame = job.transform(read(spark, job, options), options.run, options.values, terms)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", options.checkpoint)
        writer = writer.queryName(options.query_name or job.name)
        writer = writer.outputMode("update" if job.has_state else "append")
        if options.is_bounded:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{options.interval_ms} milliseconds")
        with _state_store(spark, options.state_store):
            self._query: StreamingQuery = writer.start()
        self._sink = sink

    def finish(
        self,
        on_progress: Callable[[StreamProgress], None] = lambda progress: None,
        is_stop_wanted: Callable[[], bool] = lambda: False,
    ) -> list[BatchReport]:
        """Wait until the job ends, or stop it when ``is_stop_wanted`` returns True. Returns the newest `progress.REPORTS_KEPT`
        reports. Raises `PipelineError`."""
        from py4j.protocol import Py4JError
        from pyspark.errors import StreamingQueryException

        jvm_gone = (Py4JError, ConnectionRefusedError, ConnectionResetError)
        try:
            while not self._query.awaitTermination(POLL_INTERVAL_S):
                self._report_progress(on_progress)
                if is_stop_wanted():
                    self.stop()
                    break
        except StreamingQueryException as error:
            raise PipelineError(cause_of(str(error))) from error
        except jvm_gone as error:
            if not is_stop_wanted():
                raise PipelineError("Spark's JVM has ended; its output says why") from error
            # Cancelling tasks may crash the JVM, because Spark frees memory that a task still reads. The job is to be stopped, so
            # the crash of the current batch is not an error.
            self._await_batch()
        finally:
            with contextlib.suppress(*jvm_gone):
                self._report_progress(on_progress)
            if self._sink.has_ended(0):
                self._sink.close()
        return self._reports.all()

    def stop(self) -> None:
        """Stop the stream and the current batch. The batch's transaction is aborted at once, before its timeout.

        Raises `PipelineError` if the stream does not stop within `STOP_TIMEOUT_S`.
        """
        # Stopping cancels the batch's Spark jobs, and their failure aborts the batch's transaction.
        self._query.stop()
        self._await_batch()

    def _await_batch(self) -> None:
        if not self._sink.has_ended(STOP_TIMEOUT_S):
            raise PipelineError(f"the running batch did not end within {STOP_TIMEOUT_S:.0f} s; its transaction will time out")

    def _report_progress(self, on_progress: Callable[[StreamProgress], None]) -> None:
        for progress in self._reports.new(self._query):
            on_progress(progress)


@contextlib.contextmanager
def _state_store(spark: SparkSession, name: str) -> Iterator[None]:
    """Set the state store for streams that are started in the block. A stream copies the session's settings when it starts."""
    if name == "memory":
        yield
        return
    before = spark.conf.get(_PROVIDER)
    spark.conf.set(_PROVIDER, f"{_STATES}.{STATE_STORES[name]}")
    try:
        yield
    finally:
        spark.conf.set(_PROVIDER, str(before))


def _sink_options(job: Job, options: StreamOptions) -> dict[str, str]:
    settings = {
        "kafka.bootstrap.servers": options.bootstrap,
        "transactional.id": options.transactional_id,
        "transaction.timeout.ms": str(options.transaction_timeout_ms),
        "writer": "driver" if options.by_driver else "tasks",
        "run.id": options.run,
        "topics": ",".join(job.targets),
    }
    return settings if options.progress_topic is None else {**settings, "progress.topic": options.progress_topic}
