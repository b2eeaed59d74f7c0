"""Spark's partitioning of rows: with Kafka's client in the JVM it equals Python's."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.spark.rows import spark_partitioner as placing
from ottla.spark.rows.rows import outgoing

pytestmark = [pytest.mark.full, pytest.mark.java]

PARTITIONS = {"even": 7, "odd": 3}
ROWS = (
    "CASE WHEN id % 2 = 0 THEN 'even' ELSE 'odd' END AS topic",
    "CASE WHEN id % 5 = 0 THEN NULL ELSE repeat(CAST(id AS STRING), CAST(id % 4 AS INT)) END AS key",
    "CAST(id AS STRING) AS value",
    "IF(id % 11 = 0, 1, CAST(NULL AS INT)) AS partition",
)


def test_spark_expression_and_python_partitioner_choose_the_same_partitions(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = outgoing(spark.range(500).selectExpr(*ROWS), None)

    def by_value() -> dict[bytes, Any]:
        return {bytes(row.value): row for row in placing.placed(rows, PARTITIONS).collect()}

    assert placing._hashed_by_jvm(spark, rows.key) is not None, "Kafka's client in the JVM was not used"
    by_jvm = by_value()
    monkeypatch.setattr(placing, "_hashed_by_jvm", lambda *_: None)
    by_python = by_value()
    for value, row in by_jvm.items():
        assert 0 <= row.partition < PARTITIONS[row.topic]
        if row.key is not None or int(value) % 11 == 0:
            assert row.partition == by_python[value].partition
    without_key = {row.partition for row in by_jvm.values() if row.key is None and row.topic == "even"}
    assert without_key == set(range(7)), "records without a key are spread over all partitions"
    assert len(by_jvm) == 500


def test_spark_row_for_an_unknown_topic_has_no_partition(spark: Any) -> None:
    rows = outgoing(spark.range(4).selectExpr(*ROWS), None)
    assert {(row.topic, row.partition) for row in placing.placed(rows, {"odd": 1}).where("key IS NOT NULL").collect()} == {
        ("even", None),
        ("odd", 0),
    }
    assert placing.placed(rows, {}).where("partition IS NULL").count() == 3
