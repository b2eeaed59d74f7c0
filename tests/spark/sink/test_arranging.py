"""How rows are arranged by expressions, as on Spark Connect. Needs Spark, but no broker."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.spark.rows.murmur2 import partitions_for
from ottla.spark.rows.rows import check_arranged
from ottla.spark.sink.arranging import _on_connect as arranged

pytestmark = [pytest.mark.full, pytest.mark.java]

HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def test_dataframe_with_null_headers_gets_empty_header_lists(spark: Any) -> None:
    """Arrow's writer in the JVM needs quadratic time for null lists, also when it sends rows to the task that writes them."""
    rows = [("a", "1", None), ("b", "2", []), ("c", "3", [("h", b"x"), ("n", None)])]
    frame = arranged(spark.createDataFrame(rows, f"key STRING, value STRING, {HEADERS}"), "t", {"t": 4})
    check_arranged(frame.schema)
    assert not frame.schema["headers"].nullable
    found = sorted(frame.collect(), key=lambda row: row.value)
    assert [[tuple(h) for h in row.headers] for row in found] == [[], [], [("h", b"x"), ("n", None)]]
    assert frame.toArrow().column("headers").null_count == 0
    keys = [key.encode() for key, _, _ in rows]
    assert [(row.topic, row.key, row.partition) for row in found] == [
        ("t", key, partition) for key, partition in zip(keys, partitions_for(keys, 4), strict=True)
    ]


def test_dataframe_without_headers_gets_no_header_column(spark: Any) -> None:
    frame = arranged(spark.createDataFrame([("t", "v", 3)], "topic STRING, value STRING, partition INT"), None, {"t": 4})
    check_arranged(frame.schema)
    assert [tuple(row) for row in frame.collect()] == [("t", None, b"v", 3)]
