"""Finds the running stream of a batch in Spark's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.spark.checkpoint.checkpoint import Checkpoint
from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_GROUP: Final = "spark.jobGroup.id"
"""Local properties of the thread that runs a batch (Spark's StreamExecution and MicroBatchExecution). The job group is the id of
the stream's run, unless the foreachBatch function has set another job group."""


class RunningQuery:
    """A stream that is running a batch. ``id`` stays the same over restarts; ``run`` identifies this start of the stream. ``batch``
    is the number of the running batch as text, or None if Spark does not set the number."""

    id: str
    run: str
    checkpoint: Checkpoint
    batch: str | None
    _query: Any

    def __init__(self, spark: SparkSession, before: RunningQuery | None = None) -> None:
        """``before`` is the `RunningQuery` of an earlier batch. In the same run its values are reused, to save calls to the JVM.
        Raises `PipelineError` outside of a batch."""
        context = spark.sparkContext
        query_id = context.getLocalProperty(_QUERY_ID)
        if before is not None and (query_id, context.getLocalProperty(_GROUP)) == (before.id, before.run):
            self._query, self.checkpoint = before._query, before.checkpoint
            self.id, self.run = before.id, before.run
        else:
            self._query = _running(spark, query_id)
            self.checkpoint = Checkpoint(spark, str(self._query.resolvedCheckpointRoot()))
            self.id, self.run = str(query_id), str(self._query.runId())
        self.batch = context.getLocalProperty(_BATCH)

    @property
    def is_active(self) -> bool:
        """Whether the stream was not stopped yet. False for a stopped stream whose last batch is still running."""
        from py4j.protocol import Py4JError

        try:
            return bool(self._query.isActive())
        except (Py4JError, OSError):
            # Spark's JVM has exited, so the stream has ended.
            return False


def _running(spark: SparkSession, query_id: str | None) -> Any:
    """Return the JVM's object of the running stream with this id. Raises `PipelineError` if no such stream is running."""
    jvm: Any = spark.sparkContext._jvm
    # The session of a batch is a copy without streams, so look in the state that all sessions share.
    session: Any = spark._jsparkSession
    running = session.sharedState().activeStreamingQueries()
    query = None if query_id is None else running.get(jvm.java.util.UUID.fromString(query_id))
    if query is None:
        raise PipelineError(
            "the sink writes micro-batches of a stream: give it to writeStream.foreachBatch. If a function of yours calls the sink"
            " in another thread, start that thread as a pyspark.InheritableThread"
        )
    return query


def check_number(given: int, running: str | None) -> None:
    """Raise `PipelineError` if ``given`` is not the number of the running batch: the sink recognises committed batches by
    number."""
    if running is not None and str(given) != running:
        raise PipelineError(
            f"the sink was given batch {given}, and the stream runs batch {running}: give it the number that foreachBatch gives"
        )
