"""The number of rows that Spark sends to a writing task at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from ottla.spark.sink.arrow_batches import FIRST_ROWS, MIN_ROWS, SETTING, TARGET_BYTES, ArrowBatches
from ottla.spark.sink.task_writer import Written

ROWS = 12_000


def written(records: int, record_bytes: int) -> Written:
    return Written("t", 0, records, records * record_bytes)


def largest_batch(spark: Any, batches: ArrowBatches) -> int:
    """Return the largest number of rows that a Python worker gets at once."""

    def sizes(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            yield pa.RecordBatch.from_pydict({"rows": [len(batch)]})

    frame = spark.range(0, ROWS, 1, 1).mapInArrow(sizes, "rows long")
    with batches.limited(spark):
        return max(row.rows for row in frame.collect())


@pytest.mark.wire
@pytest.mark.java
@pytest.mark.full
@pytest.mark.parametrize(
    ("parts", "setting", "rows"),
    [
        ([], "10000", FIRST_ROWS),
        ([], "0", FIRST_ROWS),
        ([], "700", 700),
        ([written(10, 1 << 10), written(30, 1 << 10)], "10000", TARGET_BYTES >> 10),
        ([written(10, 20)], "10000", 10_000),
        ([written(2, 1 << 20)], "10000", MIN_ROWS),
        ([written(0, 0)], "10000", FIRST_ROWS),
    ],
)
def test_rows_of_an_arrow_batch_follow_the_size_of_the_last_batchs_records(
    spark: Any, parts: list[Written], setting: str, rows: int
) -> None:
    session = spark.newSession()
    session.conf.set(SETTING, setting)
    batches = ArrowBatches()
    batches.note(parts)
    assert largest_batch(session, batches) == rows
    assert session.conf.get(SETTING) == setting
