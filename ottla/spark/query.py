"""The stream that a batch belongs to, as Spark's JVM knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY_ID: Final = "sql.streaming.queryId"
"""A local property of the thread that runs a batch (StreamExecution of Spark)."""


class RunningQuery:
    """``id`` is the stream's own over all its starts, ``checkpoint`` where it keeps what it knows."""

    def __init__(self, spark: SparkSession) -> None:
        """Raises `PipelineError` outside of a batch."""
        query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
        jvm: Any = spark.sparkContext._jvm
        # A batch has a session of its own, a copy, which has no streams: those of all sessions stand in what they share.
        session: Any = spark._jsparkSession
        running = session.sharedState().activeStreamingQueries()
        query = None if query_id is None else running.get(jvm.java.util.UUID.fromString(query_id))
        if query is None:
            raise PipelineError("the sink writes micro-batches of a stream: give it to writeStream.foreachBatch")
        self.id = str(query_id)
        self._query = query
        self.checkpoint = str(query.resolvedCheckpointRoot())

    @property
    def is_active(self) -> bool:
        """False as soon as somebody stops it, while its last batch may still be under way."""
        return bool(self._query.isActive())
