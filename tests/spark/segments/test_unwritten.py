"""Topics of which some or all partitions have no records, and so no directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.spark.errors import PipelineError
from ottla.spark.segments.directories import EMPTY
from ottla.spark.segments.reading import ReadRequest, Split, plan
from ottla.spark.segments.streaming import SegmentStream
from ottla.storage.checkpoints import RECOVERY_POINTS

pytestmark = pytest.mark.wire


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("empty", partitions=2)
        broker.create_topic("partly", partitions=3)
        with KafkaClient(broker.bootstrap) as client:
            client.produce("partly", [NewRecord(b"v", partition=1)])
        yield broker


def planned(broker: Broker, topic: str, **settings: object) -> list[Split]:
    return plan(ReadRequest(str(broker.data_dir), topic, **settings))  # type: ignore[arg-type]


def stream(broker: Broker, topic: str, **options: str) -> SegmentStream:
    return SegmentStream({"path": str(broker.data_dir), "subscribe": topic, "startingOffsets": "earliest", **options}, ["offset"])


def test_segment_read_of_partitions_without_records_has_no_rows(broker: Broker) -> None:
    assert planned(broker, "empty") == []
    assert planned(broker, "empty", starting_timestamp_ms=0) == []
    assert [split.partition for split in planned(broker, "partly")] == [1]
    assert planned(broker, "partly", partitions=(0, 2), starting={0: -2}, ending={2: -1}) == []
    for topic, partition in (("empty", 2), ("partly", 3)):
        with pytest.raises(PipelineError, match=f"{topic}-{partition} is not in"):
            planned(broker, topic, partitions=(partition,))
    with pytest.raises(PipelineError, match="no partition of topic 'none' is in"):
        planned(broker, "none")


def test_segment_stream_of_an_empty_topic_begins_at_its_first_record(broker: Broker) -> None:
    empty = stream(broker, "empty")
    begin = empty.initialOffset()
    assert begin == {"empty": {"0": 0, "1": 0}}
    assert empty.partitions(begin, empty.latestOffset()) == []
    with KafkaClient(broker.bootstrap) as client:
        client.produce("empty", [NewRecord(b"v", partition=1)])
    assert [part.value.partition for part in empty.partitions(begin, empty.latestOffset())] == [1]
    assert list(stream(broker, "partly", partitions="0,1").initialOffset()["partly"]) == ["0", "1"]


def test_segment_reader_does_not_read_a_deleted_topic_as_empty(broker: Broker) -> None:
    with KafkaClient(broker.bootstrap) as client:
        client.delete_topic("empty")
    with pytest.raises(PipelineError, match="no partition of topic 'empty' is in"):
        planned(broker, "empty")
    broker.create_topic("empty", partitions=1)
    with pytest.raises(PipelineError, match="empty-1 is not in"):
        planned(broker, "empty", partitions=(1,))


def test_segment_reader_reports_the_missing_directory_of_a_written_partition(broker: Broker) -> None:
    broker.stop()
    shutil.rmtree(Path(broker.data_dir) / "partly-1")
    with pytest.raises(PipelineError, match="partly-1 is missing, but the partition had records; restore it"):
        planned(broker, "partly")


def test_segment_reader_reports_a_partition_directory_missing_in_another_log_directory(broker: Broker, tmp_path: Path) -> None:
    broker.stop()
    data, other = Path(broker.data_dir), tmp_path / "other"
    other.mkdir()
    shutil.copy(data / "meta.properties", other)
    (data / RECOVERY_POINTS).rename(other / RECOVERY_POINTS)
    shutil.rmtree(data / "partly-1")
    with pytest.raises(PipelineError, match="other/partly-1 is missing, but the partition had records; restore it"):
        plan(ReadRequest(f"{data},{other}", "partly"))


def test_segment_stream_read_without_splits_has_no_rows(broker: Broker) -> None:
    assert EMPTY.start == EMPTY.end
    assert list(stream(broker, "empty").read(None)) == []
