"""Tests of the watermarks that are read from Spark's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from shop.lateness import watermarks


@pytest.mark.parametrize(("batch", "expected"), [(0, (0, 0)), (1, (0, 7_000)), (2, (7_000, 9_000))])
def test_watermarks_are_those_of_the_batch_and_of_the_batch_before(
    spark: SparkSession, tmp_path: Path, batch: int, expected: tuple[int, int]
) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for number, watermark_ms in enumerate((0, 7_000, 9_000)):
        written = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1, "conf": {"a": "b"}}
        (offsets / str(number)).write_text(f'v1\n{json.dumps(written, separators=(",", ":"))}\n{{"orders":{{"0":9}}}}')
    assert watermarks(spark, str(tmp_path), batch) == expected
