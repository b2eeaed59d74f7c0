"""Progress that combines Spark's and the sink's reports. `test_sink` has a test with a real stream."""

from __future__ import annotations

from typing import Any

from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.progress_listener import progress_of

REPORT = BatchReport(batch=3, records=7, by_topic={"a": 4, "dead": 3}, commit_ms=2.5, epoch=9)


def test_progress_listener_combines_reports_of_spark_and_the_sink() -> None:
    """The fields are those of StreamingQueryProgress in Spark 4."""
    fields: dict[str, Any] = {
        "batchId": 3,
        "numInputRows": 8,
        "processedRowsPerSecond": 16.0,
        "stateOperators": [
            {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 2, "customMetrics": {}},
            {"operatorName": "dedupe", "numRowsDroppedByWatermark": 0, "customMetrics": {"numDroppedDuplicateRows": 5}},
        ],
        "sources": [
            {"endOffset": {"in": {"0": 10, "1": 4}}, "latestOffset": {"in": {"0": 15, "1": 4, "2": 6}}},
            {"endOffset": {"logOffset": 1}, "latestOffset": {"logOffset": 2}},
            {"endOffset": 7, "latestOffset": None},
        ],
    }
    progress = progress_of(REPORT, fields, "dead")
    assert progress.report is REPORT
    assert (progress.rows, progress.rows_per_second, progress.behind) == (8, 16.0, 5 + 6)
    assert (progress.late, progress.repeated, progress.dead_letters) == (2, 5, 3)


def test_missing_fields_of_a_spark_progress_report_are_zero() -> None:
    progress = progress_of(REPORT, {"numInputRows": 0, "sources": []})
    assert (progress.rows_per_second, progress.behind, progress.late, progress.dead_letters) == (0.0, 0, 0, 0)
