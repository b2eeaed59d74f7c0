"""Streams whose function skips the sink for some batches, or catches the sink's error."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

BATCH_RECORDS = 50

Function = Callable[[Any, int], None]


class Stream:
    """A stream of numbered records that is stopped and restarted."""

    def __init__(self, spark: Any, broker: Broker, directory: Path) -> None:
        self.spark, self.broker, self.directory = spark, broker, directory
        self.sent = 0

    @property
    def checkpoint(self) -> Path:
        return self.directory / "cp"

    def add(self, batches: int) -> None:
        with KafkaClient(self.broker.bootstrap) as cluster:
            numbers = range(self.sent, self.sent + batches * BATCH_RECORDS)
            cluster.produce("in", [NewRecord(b"%d" % n) for n in numbers])
        self.sent = numbers.stop

    def sink(self, **options: str) -> ottla.spark.ExactlyOnceSink:
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "transactional.id": "numbers", "topic": "out"}
        return ottla.spark.sink(given | {name.replace("_", "."): value for name, value in options.items()})

    def run(self, function: Function) -> None:
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": "in", "startingOffsets": "earliest"}
        frame = self.spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=str(BATCH_RECORDS)).load()
        writer = frame.selectExpr("value").writeStream.foreachBatch(function)
        writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start().awaitTermination()

    def without(self, sink: Function, *batches: int) -> Function:
        return lambda frame, batch: None if batch in batches else sink(frame, batch)

    def forget_last_commit(self) -> None:
        """Undo Spark's commit, as if the driver had been killed before Spark committed the batch."""
        last = max(int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.name.isdecimal())
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def delete_group(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.delete_consumer_groups(["ottla-pipeline.numbers"]).values():
            future.result(30)

    def written(self) -> list[int]:
        return sorted(int(record.value or b"") for record in self.broker.records("out"))


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Iterator[Stream]:
    with Broker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, partitions=1)
        yield Stream(spark, broker, tmp_path)


def test_foreach_batch_function_may_skip_an_empty_batch(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    """Batch 0 of a topic without records is empty, and the stream also continues after a restart."""

    def function(frame: Any, batch: int) -> None:
        if frame.isEmpty():
            return
        stream.sink()(frame, batch)

    with caplog.at_level(logging.WARNING, "ottla.spark"):
        stream.run(function)
        assert sorted(file.name for file in (stream.checkpoint / "commits").glob("[0-9]*")) == ["0"]
        stream.add(2)
        stream.run(function)
    assert stream.written() == list(range(stream.sent))
    (warning,) = (record.getMessage() for record in caplog.records if record.name == "ottla.spark")
    assert warning.startswith(
        "batch 0 (no offsets were read): nothing was committed as 'numbers', but Spark has recorded this as done"
    )


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("skipped", [(0,), (1, 2)])
def test_stream_continues_after_skipped_batches(
    stream: Stream, caplog: pytest.LogCaptureFixture, skipped: tuple[int, ...], is_repeated: bool
) -> None:
    """The batch after the skipped batches may also be repeated after a failure that committed nothing."""
    batches = skipped[-1] + 1
    stream.add(batches)
    stream.run(stream.without(stream.sink(), *skipped))
    stream.add(2)
    if is_repeated:

        def killed(frame: Any, batch: int) -> None:
            stream.sink()(frame.selectExpr("value", "7 AS partition"), batch)

        with pytest.raises(Exception, match="topic 'out' has no partition 7"):
            stream.run(killed)
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        stream.run(stream.sink())
    lost = range(skipped[0] * BATCH_RECORDS, batches * BATCH_RECORDS)
    assert stream.written() == [number for number in range(stream.sent) if number not in lost]
    (warning,) = (record.getMessage() for record in caplog.records if record.name == "ottla.spark")
    assert f"in-0: {lost.start} to {lost.stop}" in warning


def test_skipped_batches_are_refused_when_configured(stream: Stream) -> None:
    stream.add(3)
    with pytest.raises(Exception, match=r"batch 1 \(offsets of in-0: 50 to 100\): nothing was committed as 'numbers'"):
        stream.run(stream.without(stream.sink(skipped_batches="fail"), 1))
    assert stream.written() == list(range(BATCH_RECORDS))


@pytest.mark.parametrize("batches", [1, 2])
def test_repeated_spark_batch_is_not_written_twice_after_its_group_is_deleted(stream: Stream, batches: int) -> None:
    stream.add(batches)
    stream.run(stream.sink())
    stream.forget_last_commit()
    stream.delete_group()
    stream.add(1)
    sink = stream.sink()
    stream.run(sink)
    assert (sink.metrics.replays, sink.metrics.batches) == (1, 1)
    assert stream.written() == list(range(stream.sent))


def test_repeated_spark_batch_with_unknown_progress_is_refused(stream: Stream) -> None:
    stream.add(2)
    stream.run(stream.sink(progress_topic="none"))
    stream.forget_last_commit()
    stream.delete_group()
    with pytest.raises(Exception, match="it is unknown which batches were committed"):
        stream.run(stream.sink(progress_topic="none"))
    assert stream.written() == list(range(stream.sent))


def test_swallowed_sink_error_ends_the_stream_at_the_next_batch(stream: Stream) -> None:
    """The function given to foreachBatch swallows the sink's error. A later batch is refused even by a new sink."""
    errors: list[str] = []

    def swallowing(frame: Any, batch: int) -> None:
        frame = frame.selectExpr("value", "7 AS partition") if batch == 1 else frame
        try:
            stream.sink()(frame, batch)
        except ottla.spark.PipelineError as error:
            errors.append(str(error))

    stream.add(4)
    stream.run(swallowing)
    assert stream.written() == list(range(BATCH_RECORDS))
    assert errors[0] == "topic 'out' has no partition 7: it has 1"
    assert len(errors) == 3
    assert errors[1] == errors[2]
    assert errors[1].startswith("batch 1 was not written (topic 'out' has no partition 7: it has 1), and the function given to")
    stream.add(1)
    with pytest.raises(Exception, match="batch 1 was not written"):
        stream.run(stream.sink())
    for log, first in (("commits", 1), ("offsets", 2)):
        for file in (stream.checkpoint / log).iterdir():
            if int(file.name.strip(".cr")) >= first:
                file.unlink()
    stream.run(stream.sink())
    assert stream.written() == list(range(stream.sent))


def test_stream_continues_in_the_same_process_after_the_newer_checkpoint_is_restored(stream: Stream) -> None:
    """A batch fails with the older checkpoint, but is already committed with the newer one, so its failure must not stop later
    batches."""
    older, newer = stream.directory / "older", stream.directory / "newer"
    stream.add(2)
    stream.run(stream.sink())
    shutil.copytree(stream.checkpoint, older)
    stream.add(3)
    stream.run(stream.sink())
    stream.checkpoint.rename(newer)
    older.rename(stream.checkpoint)
    with pytest.raises(Exception, match="an older checkpoint was restored, or another process runs this stream"):
        stream.run(stream.sink())
    shutil.rmtree(stream.checkpoint)
    newer.rename(stream.checkpoint)
    stream.add(1)
    stream.run(stream.sink())
    assert stream.written() == list(range(stream.sent))


def test_swallowed_sink_error_of_a_second_dataframe_ends_the_stream(stream: Stream) -> None:
    sink = stream.sink()
    errors: list[str] = []

    def swallowing(frame: Any, batch: int) -> None:
        sink(frame, batch)
        try:
            sink(frame, batch)
        except ottla.spark.PipelineError as error:
            errors.append(str(error))

    stream.add(2)
    with pytest.raises(
        Exception, match=r"batch 0 was not written \(batch 0 is committed under 'numbers', and was given to the sink again"
    ):
        stream.run(swallowing)
    assert len(errors) == 1


def test_input_topic_recreated_during_the_stream_is_reported(stream: Stream) -> None:
    """The new topic has more records than were read of the old topic, so Spark continues at the old offset."""
    sink = stream.sink(progress_topic="none")

    def recreating(frame: Any, batch: int) -> None:
        sink(frame, batch)
        if batch == 1:
            with KafkaClient(stream.broker.bootstrap) as cluster:
                cluster.delete_topic("in")
                cluster.create_topic("in", partitions=1)
            stream.add(6)

    stream.add(4)
    with pytest.raises(Exception, match="deleted and created again since this stream began to read it: 'in'"):
        stream.run(recreating)
    assert stream.written() == list(range(2 * BATCH_RECORDS))


def test_progress_topic_with_records_of_another_use_is_refused_before_any_write(stream: Stream) -> None:
    stream.add(1)
    for name, policy in (("theirs", "delete"), ("theirs-compacted", "compact")):
        stream.broker.create_topic(name, partitions=1, configs={"cleanup.policy": policy})
        with KafkaClient(stream.broker.bootstrap) as cluster:
            cluster.produce(name, [NewRecord(b"v", key=b"k")])
        with pytest.raises(Exception, match=rf"topic '{name}' \(progress\.topic\)"):
            stream.run(stream.sink(progress_topic=name))
    assert stream.written() == []
