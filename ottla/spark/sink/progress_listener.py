"""What Spark says of each batch of a stream (StreamingQueryProgress), and what its sink says of the same batch, put together.

Spark asks sinks of the JVM alone for metrics of their own (ReportsSinkMetrics), and foreachBatch is none of ours: so what the sink
knows stands beside Spark's words and not among them.
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
    """A batch of a stream.

    ``report`` is the sink's: records by topic, ``commit_ms``, the producer's epoch, whether it is a replay. ``rows`` were read,
    ``behind`` offsets of the source wait still. ``dead_letters`` are records of the topic that was named for them.

    ``late`` are rows that Spark has left out of its state for being older than the watermark. It counts them behind the first
    part of a sum, so that rows of one key in one task may be one. ``repeated`` are those that dropDuplicates has left out.
    """

    report: BatchReport
    rows: int
    rows_per_second: float
    behind: int
    dead_letters: int = 0
    late: int = 0
    repeated: int = 0


def progress_of(report: BatchReport, fields: Mapping[str, Any], dead_letter_topic: str | None = None) -> StreamProgress:
    """``fields`` are those of Spark's progress of the same batch, as its JSON has them."""
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
    """Offsets between what was read and what was there, over all partitions of sources that count by them."""
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
    """What `listener` needs of a sink."""

    def report(self, run: str, batch: int) -> BatchReport | None: ...

    def count_progress(self, progress: StreamProgress) -> None: ...


def listener(
    sink: Reporting,
    on_progress: Callable[[StreamProgress], None] = lambda progress: None,
    *,
    dead_letter_topic: str | None = None,
) -> StreamingQueryListener:
    """What ``spark.streams.addListener`` takes: hears of each batch of the sink's stream, and of no other stream's.

    Each is given to ``on_progress``, in a thread of Spark's, and counted in Spark's metrics beside what the sink counts itself:
    ``late``, ``dead_letters`` and ``repeated`` rows, and how many offsets the stream is ``behind``. What ``on_progress`` raises is
    logged, and ends nothing.
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
                # Raised into the JVM, it would be a line in a log that nobody reads.
                logger.exception("a listener has failed")

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            pass

    return Listener()
