"""Reports and counts of a sink, for a person, a listener, and Spark's metrics system."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ottla.spark.sink.task_writer import Written


class BatchReport(msgspec.Struct, frozen=True):
    """The report of a batch. With ``is_replay`` the batch had been committed before, so nothing was written.

    ``by_topic`` counts records. ``bytes`` is the compressed size. ``commit_ms`` is the time from writing the progress record to the
    end of the transaction. ``epoch`` is the producer epoch after the batch. ``retries`` counts the batch's transactions that were
    aborted before.
    """

    batch: int
    records: int = 0
    bytes: int = 0
    commit_ms: float = 0.0
    is_replay: bool = False
    by_topic: dict[str, int] = {}
    epoch: int = -1
    retries: int = 0


def shown(report: BatchReport) -> str:
    """Format a report for a log line."""
    return "was committed before" if report.is_replay else f"{report.records} records, commit {report.commit_ms:.1f} ms"


def report_of(batch: int, written: Iterable[Written], commit_ms: float) -> BatchReport:
    by_topic: dict[str, int] = {}
    size_bytes = 0
    for part in written:
        by_topic[part.topic] = by_topic.get(part.topic, 0) + part.records
        size_bytes += part.bytes
    return BatchReport(
        batch=batch, records=sum(by_topic.values()), bytes=size_bytes, commit_ms=commit_ms, by_topic=dict(sorted(by_topic.items()))
    )


class SinkMetrics(msgspec.Struct, frozen=True):
    """Sums over all batches of one sink; fields have the meaning of `BatchReport`.

    ``epoch`` is the current producer epoch, -1 before the first batch. ``aborted`` counts transactions that were retried,
    ``replays`` counts batches that had been committed before.
    """

    batches: int = 0
    records: int = 0
    bytes: int = 0
    replays: int = 0
    aborted: int = 0
    last_batch: int = -1
    last_commit_ms: float = 0.0
    commit_ms: float = 0.0
    epoch: int = -1
    by_topic: dict[str, int] = {}

    def with_report(self, report: BatchReport) -> SinkMetrics:
        by_topic = dict(self.by_topic)
        for topic, count in report.by_topic.items():
            by_topic[topic] = by_topic.get(topic, 0) + count
        return msgspec.structs.replace(
            self,
            batches=self.batches + (not report.is_replay),
            records=self.records + report.records,
            bytes=self.bytes + report.bytes,
            replays=self.replays + report.is_replay,
            last_batch=report.batch,
            last_commit_ms=report.commit_ms,
            commit_ms=self.commit_ms + report.commit_ms,
            epoch=report.epoch,
            by_topic=by_topic,
        )
