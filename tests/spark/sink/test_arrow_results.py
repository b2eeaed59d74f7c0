"""Rows in Arrow format from Spark's JVM: their order, the limit, and failed jobs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark.sink.arrow_results import collected, received

SCHEMA = pa.schema([("n", pa.int64())])


def sent(batches: list[list[int]], order: list[int], after: bytes = b"") -> io.BytesIO:
    """Return what Spark's JVM sends: an Arrow stream, the number of batches, and their order."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch([pa.array(batch, pa.int64())], schema=SCHEMA))
    for number in [len(order), *order] if not after else []:
        out.write(number.to_bytes(4, "big", signed=True))
    out.write(after)
    out.seek(0)
    return out


@pytest.mark.parametrize(
    ("batches", "order", "rows"), [([], [], []), ([[1, 2]], [0], [1, 2]), ([[5], [1, 2], [3]], [1, 2, 0], [1, 2, 3, 5])]
)
def test_arrow_batches_of_spark_get_the_order_of_their_partitions(batches: Any, order: Any, rows: list[int]) -> None:
    table = received(sent(batches, order), lambda batch: True)
    assert table is not None
    assert table.schema == SCHEMA
    assert table.column("n").to_pylist() == rows


def test_arrow_batches_after_a_refused_batch_are_not_read() -> None:
    seen: list[list[int]] = []

    def is_accepted(batch: pa.RecordBatch) -> bool:
        seen.append(batch.column(0).to_pylist())
        return len(seen) < 2

    assert received(sent([[1], [2], [3], [4]], [0, 1, 2, 3]), is_accepted) is None
    assert seen == [[1], [2]]


def test_failed_job_and_closed_connection_are_not_taken_for_rows() -> None:
    text = b"Total size of serialized results"
    with pytest.raises(RuntimeError, match="Total size of serialized results"):
        received(sent([[1]], [], b"\xff\xff\xff\xff" + len(text).to_bytes(4, "big") + text), lambda batch: True)
    with pytest.raises(EOFError, match="closed the connection before the end"):
        received(sent([[1]], [], b"\0"), lambda batch: True)


@pytest.mark.full
@pytest.mark.java
def test_failed_spark_job_raises_the_error_of_its_task(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(4).selectExpr("id", "IF(id = 3, raise_error('row of three'), 1) AS n")
    with pytest.raises(Exception, match="row of three") as raised:
        collected(frame, lambda batch: True)
    assert type(raised.value).__module__.startswith("pyspark.errors")
    assert spark.range(3).count() == 3
