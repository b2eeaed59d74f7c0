"""Combines Spark's progress of a batch (StreamingQueryProgress) with the sink's report of the batch.

Spark includes custom metrics only for sinks in the JVM (ReportsSinkMetrics), not for foreachBatch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ottla.spark.sink.metrics import BatchReport

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

logger = logging.getLogger("ottla.spark")


class StreamProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one batch.

    ``report`` is the sink's report. ``rows`` is the number of input rows, ``behind`` the lag in offsets. ``dead_letters`` counts
    records in the dead letter topic, ``repeated`` rows that dropDuplicates has removed, ``late`` rows that Spark has dropped
    because they are older than the watermark. Several late rows of one key may count as one, because Spark counts after partial
    aggregation.
    """

    report: BatchReport
    rows: int
    rows_per_second: float
    behind: int
    dead_letters: int = 0
    late: int = 0
    repeated: int = 0


def progress_of(report: BatchReport, fields: Mapping[str, Any], dead_letter_topic: str | None = None) -> StreamProgress:
    """Combine the report with Spark's progress of the same batch, whose JSON is ``fields``."""
    states = fields.get("stateOperators", ())
    return StreamProgress(
        report=report,
        rows=fields["numInputRows"],
        rows_per_second=fields.get("processedRowsPerSecond", 0.0),
        behind=_behind(fields),
        dead_letters=0 if dead_letter_topic is None else report.by_topic.get(dead_letter_topic, 0),
        late=sum(state.get("numRowsDroppedByWatermark", 0) for state in states),
        repeated=sum(state.get("customMetrics", {}).get("numDroppedDuplicateRows", 0) for state in states),
    )


def _behind(fields: Mapping[str, Any]) -> int:
    """Return the lag, in offsets, of all partitions of Kafka sources together."""
    total = 0
    for source in fields.get("sources", ()):
        ends, latest = source.get("endOffset") or {}, source.get("latestOffset") or {}
        if not (isinstance(ends, dict) and isinstance(latest, dict)):
            continue
        for topic, partitions in latest.items():
            if isinstance(partitions, dict):
                total += sum(max(0, end - ends.get(topic, {}).get(index, 0)) for index, end in partitions.items())
    return total


class Reporting(Protocol):
    """The methods of a sink that `listener` uses."""

    def report(self, run: str, batch: int) -> BatchReport | None: ...

    def count_progress(self, progress: StreamProgress) -> None: ...


def listener(
    sink: Reporting,
    on_progress: Callable[[StreamProgress], None] = lambda progress: None,
    *,
    dead_letter_topic: str | None = None,
) -> StreamingQueryListener:
    """Return a listener for ``spark.streams.addListener``, which ignores streams without this sink.

    The listener calls ``on_progress`` for each batch, in a thread of Spark, and adds ``late``, ``dead_letters``, ``repeated`` and
    ``behind`` to Spark's metrics. Errors of ``on_progress`` are only logged.
    """
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            try:
                fields = json.loads(event.progress.json)
                report = sink.report(fields["runId"], fields["batchId"])
                if report is not None:
                    progress = progress_of(report, fields, dead_letter_topic)
                    sink.count_progress(progress)
                    on_progress(progress)
            except Exception:
                # Spark writes only one line about a listener's exception to its log.
                logger.exception("a progress listener failed")

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            pass

    return Listener()
