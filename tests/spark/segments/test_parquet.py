"""Splits written as Parquet files have all records of the split once, however often a task is repeated."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ottla.spark.segments import parquet
from ottla.spark.segments.reading import COLUMNS, ReadRequest, plan, read
from ottla.storage.real_filesystem import RealFilesystem
from tests.spark.segments.test_reading import history
from tests.support.logs import Logs


@pytest.mark.parametrize("row_group_bytes", [1, 1 << 30])
def test_parquet_export_has_the_rows_of_its_segment_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_bytes: int
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", row_group_bytes)
    monkeypatch.setattr("ottla.spark.segments.reading.BATCH_BYTES", 500)
    log = Logs(RealFilesystem(), str(tmp_path / "data" / "t-0")).new()
    for _ in history(log, random.Random(4), 120):
        pass
    splits = plan(ReadRequest(str(tmp_path / "data"), "t", split_bytes=2_000))
    assert len(splits) > 3
    to = tmp_path / "to"
    to.mkdir()
    for number, split in enumerate(splits):
        expected = [row for batch in read(split, list(COLUMNS)) for row in batch.to_pylist()]
        for _ in range(2):
            assert parquet.write(split, str(to), number) == len(expected)
        file = pq.ParquetFile(to / f"part-{number:05d}.parquet")
        assert file.read().to_pylist() == expected
        assert dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True)) == COLUMNS
        assert file.num_row_groups == (len(list(read(split, []))) if row_group_bytes == 1 else min(1, len(expected)))
    assert len(list(to.iterdir())) == len(splits)


def test_late_parquet_export_task_leaves_no_files(tmp_path: Path) -> None:
    """A repeated task runs after the directory of its part of the export was renamed."""
    log = Logs(RealFilesystem(), str(tmp_path / "data" / "t-0")).new()
    for _ in history(log, random.Random(4), 20):
        pass
    (split,) = plan(ReadRequest(str(tmp_path / "data"), "t", ending={0: 5}))
    with pytest.raises(FileNotFoundError):
        parquet.write(split, str(tmp_path / "gone"), 0)
    assert not (tmp_path / "gone").exists()
