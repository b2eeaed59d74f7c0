"""The bounds of a batch in a stream over segment files, and the offset at which the stream continues."""

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

from ottla.protocol.uuids import uuid_text
from ottla.spark.errors import PipelineError
from ottla.spark.segments.streaming import TOPIC_ID, SegmentStream, bounded
from ottla.storage.checkpoints import write_partition_metadata
from ottla.storage.log import Log
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.recovery import open_log
from tests.spark.segments.test_reading import Logs, put
from tests.support.logs import NOW_MS, SMALL

SPANS = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 100), st.integers(0, 1_000)), max_size=6)


@given(SPANS, st.integers(1, 2_000))
def test_bounded_segment_stream_batch_advances_every_partition(spans: dict[int, tuple[int, int]], most: int) -> None:
    starts = {index: start for index, (start, _) in spans.items()}
    ends = {index: start + waiting for index, (start, waiting) in spans.items()}
    batch = bounded(starts, ends, most)
    assert batch.keys() == ends.keys()
    assert all(starts[index] <= batch[index] <= ends[index] for index in ends)
    assert all(batch[index] > starts[index] for index in ends if ends[index] > starts[index])
    assert sum(batch[index] - starts[index] for index in ends) <= most + len(ends)


def test_bounded_segment_stream_reads_partitions_in_proportion_to_their_records() -> None:
    """Two partitions have records of the same hours. A partition with ten times as many records is read ten times as fast."""
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


def told(offset: int, topic_id: bytes) -> dict[str, Any]:
    return {"t": {"0": offset}, TOPIC_ID: uuid_text(topic_id)}


def at(offset: int) -> dict[str, Any]:
    return told(offset, bytes(range(16)))


def test_latest_offset_of_a_segment_stream_continues_from_its_previous_offset(root: Path) -> None:
    started = stream(root)
    assert started.initialOffset() == at(0)
    assert [started.latestOffset() for _ in range(4)] == [at(20), at(40), at(50), at(50)]
    # Spark 4.2 passes the stream's current offset.
    assert stream(root).latestOffset(at(30), None) == at(50)
    assert stream(root).latestOffset(at(10), None) == at(30)
    replanned = stream(root)
    replanned.partitions(at(0), at(20))
    assert replanned.latestOffset() == at(40)


def test_segment_stream_resumes_from_the_checkpoint(root: Path, tmp_path: Path) -> None:
    offsets = tmp_path / "cp" / "offsets"
    with pytest.raises(PipelineError, match=r"has no readable stream id|cannot be read"):
        stream(root).latestOffset()
    offsets.mkdir(parents=True)
    (tmp_path / "cp" / "metadata").write_text('{"id":"q"}')
    # Spark may call latestOffset before initialOffset.
    assert stream(root).latestOffset() == at(20)
    for batch, offset in ((9, 10), (10, 20)):
        (offsets / f"{batch}").write_text(f"v1\n{{}}\n{json.dumps(at(offset))}")
    (offsets / ".10.crc").write_text("")
    assert stream(root).latestOffset() == at(40)
    (offsets / "11").write_text('v1\n{}\n{"u":{"0":5}}')
    with pytest.raises(PipelineError, match="belongs to a stream that does not read 't'"):
        stream(root).latestOffset()


def test_segment_stream_refuses_a_log_shorter_than_its_checkpoint(root: Path) -> None:
    with pytest.raises(PipelineError, match="t-0: the stream is at offset 40, and its source at 20: the log was recreated, or"):
        stream(root).partitions(at(40), at(20))


@pytest.mark.parametrize("bound", ["0x", "-1", "many", "0"])
def test_segment_stream_refuses_an_invalid_max_offsets_per_trigger(root: Path, bound: str) -> None:
    options: dict[str, Any] = {"maxOffsetsPerTrigger": bound}
    with pytest.raises(PipelineError, match="maxOffsetsPerTrigger"):
        stream(root, **options)


@pytest.mark.skipif(hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="Spark 4.2 says where a stream is")
def test_segment_stream_with_max_offsets_per_trigger_requires_a_checkpoint_location(root: Path) -> None:
    with pytest.raises(PipelineError, match="maxOffsetsPerTrigger needs the option checkpointLocation"):
        SegmentStream({"path": str(root), "subscribe": "t", "maxOffsetsPerTrigger": "20"}, ["offset"])


OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"


def is_now(root: Path, topic_id: bytes) -> None:
    write_partition_metadata(RealFilesystem(), str(root / "t-0"), topic_id)


@pytest.mark.parametrize("end", [10, 40, 50], ids=["fewer", "as many", "more"])
def test_segment_stream_over_a_recreated_topic_is_refused(root: Path, end: int) -> None:
    """Even if the new topic has more records than the old one, its records below the stream's offset would be skipped."""
    is_now(root, OLD)
    assert stream(root).initialOffset() == told(0, OLD)
    is_now(root, NEW)
    with pytest.raises(PipelineError, match=r"t: the stream has read the topic with the id A+Q, but this topic has the id A+g"):
        stream(root).partitions(told(40, OLD), told(end, NEW))
    with pytest.raises(PipelineError, match="it was recreated"):
        stream(root).latestOffset(told(40, OLD), None)
    # Spark repeats a batch that it planned before the topic was recreated.
    with pytest.raises(PipelineError, match="it was recreated"):
        stream(root).partitions(told(20, OLD), told(40, OLD))
    accepting = stream(root, failOnDataLoss="false")
    assert accepting.latestOffset(told(40, OLD), None) == told(20, NEW)
    splits = [p.value for p in accepting.partitions(told(40, OLD), told(end, NEW))]
    assert (splits[0].start, splits[-1].end) == (0, end)


def test_bounded_segment_stream_fails_if_its_log_is_shorter_than_the_checkpoint(root: Path) -> None:
    with pytest.raises(PipelineError, match="the stream is at offset 70, and its source at 50"):
        stream(root).latestOffset(at(70), None)


def test_segment_stream_accepts_checkpoint_offsets_without_topic_ids(root: Path) -> None:
    is_now(root, NEW)
    before = {"t": {"0": 20}}
    assert stream(root).latestOffset(before, None) == told(40, NEW)
    assert stream(root).partitions(before, told(40, NEW))


def test_segment_stream_checkpoint_offsets_include_the_topic_id(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cp" / "offsets").mkdir(parents=True)
    (tmp_path / "cp" / "metadata").write_text('{"id":"q"}')
    (tmp_path / "cp" / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(told(20, OLD))}")
    is_now(root, NEW)
    with pytest.raises(PipelineError, match="it was recreated"):
        stream(root).latestOffset()


@pytest.mark.parametrize("bound", [{}, {"maxOffsetsPerTrigger": "20"}], ids=["unbounded", "bounded"])
def test_new_segment_stream_begins_at_the_latest_offset_that_spark_requested_first(
    root: Path, tmp_path: Path, bound: dict[str, str]
) -> None:
    """Spark calls latestOffset before initialOffset on a new stream, and records are appended in between."""
    (tmp_path / "cp" / "offsets").mkdir(parents=True)
    (tmp_path / "cp" / "metadata").write_text('{"id":"q"}')
    given = {"path": str(root), "subscribe": "t", "checkpointLocation": str(tmp_path / "cp")} | bound
    started = SegmentStream(given, ["offset"])
    end = started.latestOffset()
    fs = RealFilesystem()
    log = Log(fs, str(root / "t-0"), "t", 0, SMALL, bytes(range(16)))
    open_log(log, NOW_MS, clean=False)
    put(log, 7)
    assert started.initialOffset() == end == at(50)
    assert started.partitions(started.initialOffset(), end) == []
    assert started.latestOffset() == at(57)
    (split,) = started.partitions(end, at(57))
    assert [row["offset"] for batch in started.read(split) for row in batch.to_pylist()] == list(range(50, 57))
    fs.close_files()
