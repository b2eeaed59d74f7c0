"""Progress reports of a stream: every batch is reported once, from Spark's list of recent progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.pipeline import progress
from ottla.pipeline.progress import Reports
from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.progress_listener import StreamProgress


class SparksProgress:
    def __init__(self, batch: int, rows: int = 10) -> None:
        self.batchId = batch
        ends = {"purchases": {"0": rows * (batch + 1)}}
        source = {"endOffset": ends, "latestOffset": {"purchases": {"0": 100, "1": 3}}}
        fields: dict[str, Any] = {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 5.0, "sources": [source]}
        fields["durationMs"] = {"addBatch": 3, "triggerExecution": 9}
        fields["stateOperators"] = [{"numRowsDroppedByWatermark": 2}, {}]
        self.json = json.dumps(fields)


class Query:
    """Replaces Spark's streaming query, and counts how many progress entries were read."""

    def __init__(self) -> None:
        self.kept: list[SparksProgress] = []
        self.asked = 0

    @property
    def lastProgress(self) -> SparksProgress | None:
        self.asked += bool(self.kept)
        return self.kept[-1] if self.kept else None

    @property
    def recentProgress(self) -> list[SparksProgress]:
        self.asked += len(self.kept)
        return list(self.kept)


def done(reports: Reports, query: Query, batch: int) -> None:
    reports.keep(BatchReport(batch, by_topic={"dead-letters": 1}))
    query.kept.append(SparksProgress(batch))


def told(reports: Reports, query: Query) -> list[int]:
    return [progress.report.batch for progress in reports.new(query)]


def test_spark_batch_is_reported_once_with_its_progress_figures() -> None:
    reports, query = Reports("dead-letters"), Query()
    done(reports, query, 0)
    report = reports.all()[0]
    assert list(reports.new(query)) == [
        StreamProgress(report=report, rows=10, rows_per_second=5.0, behind=93, dead_letters=1, late=2)
    ]
    assert told(reports, query) == []


def test_spark_progress_is_read_once_per_batch() -> None:
    reports, query = Reports("dead-letters"), Query()
    for batch in range(50):
        done(reports, query, batch)
        assert told(reports, query) == [batch]
        assert told(reports, query) == []
    assert query.asked == 50


def test_spark_batches_that_ended_between_two_polls_are_all_reported() -> None:
    reports, query = Reports("dead-letters"), Query()
    for batch in range(57, 60):
        done(reports, query, batch)
    assert told(reports, query) == [57, 58, 59]


def test_spark_batch_is_reported_only_after_spark_reports_its_progress() -> None:
    reports, query = Reports("dead-letters"), Query()
    reports.keep(BatchReport(0))
    assert told(reports, query) == []
    query.kept.append(SparksProgress(0))
    reports.keep(BatchReport(1))
    assert told(reports, query) == [0]
    assert told(reports, query) == []
    query.kept.append(SparksProgress(1))
    assert told(reports, query) == [1]


def test_idle_spark_progress_is_not_reported_as_a_batch_and_hides_no_batch() -> None:
    reports, query = Reports("dead-letters"), Query()
    done(reports, query, 0)
    query.kept.append(SparksProgress(1, rows=0))
    assert told(reports, query) == [0]
    assert told(reports, query) == []
    done(reports, query, 1)
    assert told(reports, query) == [1]


def test_spark_batch_of_an_earlier_execution_is_not_reported() -> None:
    """Progress without a report of the sink belongs to a batch of an earlier run."""
    reports, query = Reports("dead-letters"), Query()
    query.kept.append(SparksProgress(4))
    assert told(reports, query) == []
    assert query.asked == 0


def test_idle_spark_progress_is_not_used_for_a_later_batch() -> None:
    reports, query = Reports("dead-letters"), Query()
    waiting = SparksProgress(0, rows=0)
    waiting.json = json.dumps({**json.loads(waiting.json), "durationMs": {"latestOffset": 1, "triggerExecution": 1}})
    query.kept.append(waiting)
    reports.keep(BatchReport(0, by_topic={}))
    assert told(reports, query) == []
    query.kept.append(SparksProgress(0))
    assert [progress.rows for progress in reports.new(query)] == [10]


def test_long_spark_job_stores_recent_batch_reports_and_reports_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORTS_KEPT", 3)
    reports, query = Reports("dead-letters"), Query()
    dead_letters = 0
    for batch in range(10):
        done(reports, query, batch)
        dead_letters += sum(told_of.dead_letters for told_of in reports.new(query))
    assert [report.batch for report in reports.all()] == [7, 8, 9]
    assert dead_letters == 10
