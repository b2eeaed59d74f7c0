"""Totals over all batches of a sink."""

from __future__ import annotations

import msgspec

from ottla.spark.sink.metrics import BatchReport, SinkMetrics, report_of
from ottla.spark.sink.task_writer import Written


def test_sink_metrics_count_records_by_topic() -> None:
    parts = [Written("b", 0, 2, 20), Written("a", 1, 3, 30), Written("b", 1, 5, 50)]
    report = report_of(7, parts, 1.5)
    assert (report.batch, report.records, report.bytes, report.commit_ms) == (7, 10, 100, 1.5)
    assert list(report.by_topic.items()) == [("a", 3), ("b", 7)]


def test_sink_metrics_exclude_repeated_batches() -> None:
    last = report_of(1, [Written("a", 0, 1, 10), Written("b", 0, 1, 10)], 3.0)
    metrics = SinkMetrics().with_report(report_of(0, [Written("a", 0, 2, 20)], 1.0))
    metrics = metrics.with_report(BatchReport(batch=0, is_replay=True, epoch=4))
    assert metrics.epoch == 4
    metrics = metrics.with_report(msgspec.structs.replace(last, epoch=5))
    assert (metrics.batches, metrics.replays, metrics.records, metrics.bytes) == (2, 1, 4, 40)
    assert (metrics.by_topic, metrics.epoch, metrics.last_batch) == ({"a": 3, "b": 1}, 5, 1)
    assert (metrics.commit_ms, metrics.last_commit_ms) == (4.0, 3.0)
