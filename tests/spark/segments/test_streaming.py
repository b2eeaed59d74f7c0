"""How far a batch of a stream over segment files reads, and where a stream goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceStreamReader

from ottla.spark.errors import PipelineError
from ottla.spark.segments.streaming import SegmentStream, bounded
from ottla.storage.real_filesystem import RealFilesystem
from tests.spark.segments.test_reading import Logs, put

SPANS = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 100), st.integers(0, 1_000)), max_size=6)


@given(SPANS, st.integers(1, 2_000))
def test_a_batch_is_bounded_and_every_partition_gets_on(spans: dict[int, tuple[int, int]], most: int) -> None:
    starts = {index: start for index, (start, _) in spans.items()}
    ends = {index: start + waiting for index, (start, waiting) in spans.items()}
    batch = bounded(starts, ends, most)
    assert batch.keys() == ends.keys()
    assert all(starts[index] <= batch[index] <= ends[index] for index in ends)
    assert all(batch[index] > starts[index] for index in ends if ends[index] > starts[index])
    assert sum(batch[index] - starts[index] for index in ends) <= most + len(ends)


def test_partitions_of_one_span_are_read_in_step() -> None:
    """Of two partitions that hold the same hours, the one with ten times the records is read ten times as fast."""
    at, ends, batches = {0: 0, 1: 0}, {0: 10_000, 1: 1_000}, 0
    while at != ends:
        at = bounded(at, ends, 1_100)
        batches += 1
        assert abs(at[0] / ends[0] - at[1] / ends[1]) < 0.01
    assert batches == 10


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    fs = RealFilesystem()
    log = Logs(fs, str(tmp_path / "data" / "t-0")).new()
    for _ in range(5):
        put(log, 10)
    yield tmp_path / "data"
    fs.close_files()


def stream(root: Path, **options: str) -> SegmentStream:
    given = {
        "path": str(root),
        "subscribe": "t",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
        "checkpointLocation": str(root.parent / "cp"),
    }
    return SegmentStream(given | options, ["offset"])


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": offset}}


def test_a_stream_goes_on_where_it_has_said_last(root: Path) -> None:
    started = stream(root)
    assert started.initialOffset() == at(0)
    assert [started.latestOffset() for _ in range(4)] == [at(20), at(40), at(50), at(50)]
    # Spark 4.2 says where it is.
    assert stream(root).latestOffset(at(30), None) == at(50)
    assert stream(root).latestOffset(at(10), None) == at(30)
    replanned = stream(root)
    replanned.partitions(at(0), at(20))
    assert replanned.latestOffset() == at(40)


def test_after_a_restart_the_checkpoint_says_where(root: Path, tmp_path: Path) -> None:
    offsets = tmp_path / "cp" / "offsets"
    with pytest.raises(PipelineError, match=r"does not say which stream's it is|cannot be read"):
        stream(root).latestOffset()
    offsets.mkdir(parents=True)
    (tmp_path / "cp" / "metadata").write_text('{"id":"q"}')
    # Spark may ask for the end before it asks for the beginning.
    assert stream(root).latestOffset() == at(20)
    for batch, offset in ((9, 10), (10, 20)):
        (offsets / f"{batch}").write_text(f"v1\n{{}}\n{json.dumps(at(offset))}")
    (offsets / ".10.crc").write_text("")
    assert stream(root).latestOffset() == at(40)
    (offsets / "11").write_text('v1\n{}\n{"u":{"0":5}}')
    with pytest.raises(PipelineError, match="is of no stream that reads 't'"):
        stream(root).latestOffset()


def test_a_source_that_is_behind_its_stream_is_refused(root: Path) -> None:
    with pytest.raises(PipelineError, match="t-0: the stream is at offset 40, and its source at 20: the log was made anew, or"):
        stream(root).partitions(at(40), at(20))


@pytest.mark.parametrize("bound", ["0x", "-1", "many", "0"])
def test_a_bound_that_is_no_number_is_refused(root: Path, bound: str) -> None:
    options: dict[str, Any] = {"maxOffsetsPerTrigger": bound}
    with pytest.raises(PipelineError, match="maxOffsetsPerTrigger"):
        stream(root, **options)


@pytest.mark.skipif(hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="Spark 4.2 says where a stream is")
def test_without_a_checkpoint_a_bound_is_refused_before_the_stream_starts(root: Path) -> None:
    with pytest.raises(PipelineError, match="maxOffsetsPerTrigger needs the option checkpointLocation"):
        SegmentStream({"path": str(root), "subscribe": "t", "maxOffsetsPerTrigger": "20"}, ["offset"])
