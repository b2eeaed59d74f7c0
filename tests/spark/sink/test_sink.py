"""The sink as users call it, with rows, a broker and a stream."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient, NewPartitions

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.client.security.client_config import Connecting
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.progress.active_sinks import NOTES
from ottla.spark.progress.marks import Mark, commit_of, commit_plainly, group_of
from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.progress_listener import StreamProgress
from ottla.spark.sink.transaction import SharedTransaction

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

PARITY = "CASE WHEN value % 2 = 0 THEN 'even' ELSE 'odd' END AS topic"
TEXT = "CAST(value AS STRING) AS value"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("even", "odd", "numbers", "single"):
            broker.create_topic(topic, partitions=1 if topic == "single" else 3)
        yield broker


class Numbers:
    """A stream over files of numbers that is stopped and restarted."""

    def __init__(self, spark: Any, broker: Broker, directory: Path) -> None:
        self.spark, self.broker, self.directory = spark, broker, directory
        self.reports: list[BatchReport] = []
        (directory / "in").mkdir()

    def add(self, *numbers: int) -> None:
        count = len(list((self.directory / "in").iterdir()))
        (self.directory / "in" / f"{count}.csv").write_text("".join(f"{n}\n" for n in numbers))

    def run(self, change: Callable[[Any], Any], checkpoint: str = "cp", **options: str) -> ottla.spark.ExactlyOnceSink:
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "transactional.id": "numbers"}
        sink = ottla.spark.sink(given | {k.replace("_", "."): v for k, v in options.items()}, on_batch=self.reports.append)
        frame = change(self.spark.readStream.schema("value LONG").csv(str(self.directory / "in")))
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.directory / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sink

    def values(self, topic: str) -> list[int]:
        return sorted(int(record.value or b"") for record in self.broker.records(topic))


@pytest.fixture
def numbers(spark: Any, broker: Broker, tmp_path: Path) -> Numbers:
    return Numbers(spark, broker, tmp_path)


def by_parity(frame: Any) -> Any:
    return frame.selectExpr(PARITY, "CAST(value AS STRING) AS key", TEXT)


def as_text(frame: Any) -> Any:
    return frame.selectExpr(TEXT)


@pytest.mark.smoke
@pytest.mark.parametrize("writer", ["tasks", pytest.param("driver", marks=pytest.mark.full)])
def test_sink_writes_rows_of_any_schema_once_to_several_topics(numbers: Numbers, writer: str) -> None:
    numbers.add(*range(1_000))
    with pytest.raises(Exception, match=r"its rows choose their topics themselves: give with mark\.topic"):
        numbers.run(by_parity, writer=writer, progress_topic="none")
    sink = numbers.run(by_parity, writer=writer, topics="even,odd")
    assert (sink.metrics.records, sink.metrics.by_topic) == (1_000, {"even": 500, "odd": 500})
    shutil.rmtree(numbers.directory / "cp" / "commits")
    numbers.add(*range(1_000, 1_100))
    again = numbers.run(by_parity, writer=writer, topics="even,odd")
    assert (again.metrics.replays, again.metrics.batches, again.metrics.records) == (1, 1, 100)
    assert numbers.values("even") + numbers.values("odd") == [*range(0, 1_100, 2), *range(1, 1_100, 2)]


def test_sink_is_reusable_after_a_failed_abort(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed transaction is still open. With the same producer, new rows would be dropped as duplicates of its rows."""
    numbers.add(*range(100))
    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "numbers", "topic": "single"}
    aborted: list[int] = []
    end = SharedTransaction.end

    def lost(self: SharedTransaction, *, commit: bool) -> None:
        if not commit:
            raise PipelineError("aborting: no broker answers")
        end(self, commit=commit)

    with ottla.spark.sink(given, on_batch=numbers.reports.append, on_abort=lambda batch, error: aborted.append(batch)) as sink:

        def run(*expressions: str) -> None:
            frame = numbers.spark.readStream.schema("value LONG").csv(str(numbers.directory / "in")).selectExpr(*expressions)
            writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(numbers.directory / "cp"))
            writer.trigger(availableNow=True).start().awaitTermination()

        monkeypatch.setattr(SharedTransaction, "end", lost)
        monkeypatch.setattr(SharedTransaction, "mark", lambda *_: 1 // 0)
        with pytest.raises(Exception, match="no broker answers"):
            run("CAST(value + 1000 AS STRING) AS value")
        monkeypatch.undo()
        run(TEXT)
        assert numbers.values("single") == list(range(100))
        # A non-retriable error is reported at once, with the message of the task that raised it.
        numbers.add(1)
        with pytest.raises(Exception, match="topic 'single' has no partition 7: it has 1"):
            run(TEXT, "7 AS partition")
    assert aborted == []
    assert numbers.values("single") == list(range(100))


def test_file_stream_accepts_topic_and_mark_topic_options(numbers: Numbers) -> None:
    numbers.add(*range(10))
    numbers.run(as_text, topic="numbers", mark_topic="single", compression_type="zstd")
    assert numbers.values("numbers") == list(range(10))
    assert numbers.broker.lag("ottla-pipeline.numbers") == {("single", 0): 0}
    # A stream with another checkpoint is a different stream. It is refused before it fences the first stream.
    with pytest.raises(Exception, match="the last batch under this transactional id came from another checkpoint"):
        numbers.run(as_text, "another", topic="numbers", mark_topic="single")
    assert numbers.values("numbers") == list(range(10))


def test_sink_writes_to_added_partitions(spark: Any, numbers: Numbers) -> None:
    admin = AdminClient({"bootstrap.servers": numbers.broker.bootstrap})
    batches: list[int] = []

    def grown(report: BatchReport) -> None:
        batches.append(report.batch)
        if report.batch == 0:
            for future in admin.create_partitions([NewPartitions("single", 4)]).values():
                future.result(60)

    options = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "x", "topic": "single"}
    sink = ottla.spark.sink(options, on_batch=grown)
    frame = spark.readStream.schema("value LONG").option("maxFilesPerTrigger", "1").csv(str(numbers.directory / "in"))
    for _ in range(2):
        numbers.add(*range(100))
    frame = frame.selectExpr("CAST(value AS STRING) AS key", "CAST(value AS STRING) AS value")
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(numbers.directory / "cp"))
    query.trigger(availableNow=True).start().awaitTermination()
    partitions = Counter(record.partition for record in numbers.broker.records("single"))
    assert batches == [0, 1]
    assert set(partitions) == {0, 1, 2, 3}
    assert partitions[0] > 100
    assert sum(partitions.values()) == 200


def test_sink_writes_correct_counts_when_spark_computes_a_committed_batch_again(numbers: Numbers) -> None:
    """Spark updates its state by computing a batch, so a batch that is already committed is computed again."""

    def counted(frame: Any) -> Any:
        counts = frame.selectExpr("value % 10 AS digit").groupBy("digit").count()
        return counts.selectExpr("CAST(digit AS STRING) AS key", "CAST(count AS STRING) AS value")

    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "totals", "topic": "single"}

    def run() -> None:
        frame = counted(numbers.spark.readStream.schema("value LONG").csv(str(numbers.directory / "in")))
        writer = frame.writeStream.foreachBatch(ottla.spark.sink(given)).outputMode("update")
        writer.option("checkpointLocation", str(numbers.directory / "cp")).trigger(availableNow=True).start().awaitTermination()

    numbers.add(*range(100))
    run()
    shutil.rmtree(numbers.directory / "cp" / "commits")
    shutil.rmtree(numbers.directory / "cp" / "state" / "0")
    numbers.add(*range(50))
    run()
    last = {record.key: int(record.value or b"") for record in numbers.broker.records("single")}
    assert last == {b"%d" % digit: 15 for digit in range(10)}


def test_stream_with_a_lost_checkpoint_resumes_from_the_committed_offsets(spark: Any, numbers: Numbers) -> None:
    bootstrap = numbers.broker.bootstrap

    def fill(first: int, count: int) -> None:
        KafkaClient(bootstrap).produce("numbers", [NewRecord(b"%d" % n) for n in range(first, first + count)])

    def run(checkpoint: str, **options: str) -> None:
        settings = {"kafka.bootstrap.servers": bootstrap, "subscribe": "numbers", "startingOffsets": "earliest", **options}
        frame = spark.readStream.format("kafka").options(**settings).load().selectExpr("value")
        sink = ottla.spark.sink({"kafka.bootstrap.servers": bootstrap, "transactional.id": "copy", "topic": "single"})
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(numbers.directory / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(ottla.spark.PipelineError, match="nothing was committed as 'copy'"):
        ottla.spark.committed_offsets(bootstrap, "copy")
    fill(0, 300)
    run("lost")
    fill(300, 200)
    with pytest.raises(Exception, match=r"If that checkpoint is lost, start at ottla\.spark\.committed_offsets"):
        run("from the beginning")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions("numbers", 4)]).values():
        future.result(60)
    for _ in range(2):
        run("new", startingOffsets=ottla.spark.committed_offsets(bootstrap, "copy"))
        fill(500, 100)
    run("new")
    assert sorted(Counter(numbers.values("single")).items()) == [(n, 1 + (n >= 500)) for n in range(600)]


@pytest.mark.parametrize("writer", ["tasks", "driver"])
def test_older_restored_checkpoint_of_a_file_stream_is_reported(numbers: Numbers, writer: str) -> None:
    """Spark numbers the batches of a file source, so after a reset a number refers to other files."""
    numbers.add(*range(100))
    numbers.run(as_text, topic="single", writer=writer)
    checkpoint, kept = numbers.directory / "cp", numbers.directory / "kept"
    shutil.copytree(checkpoint, kept)
    numbers.add(*range(100, 200))
    numbers.run(as_text, topic="single", writer=writer)
    shutil.rmtree(checkpoint / "commits")
    numbers.run(as_text, topic="single", writer=writer)
    assert numbers.values("single") == list(range(200))
    shutil.rmtree(checkpoint)
    kept.rename(checkpoint)
    numbers.add(*range(200, 300))
    with pytest.raises(Exception, match="batch 1 was committed, but the checkpoint has other files for it"):
        numbers.run(as_text, topic="single", writer=writer)
    assert numbers.values("single") == list(range(200))


def test_foreach_batch_sink_writes_a_batch_number_once(spark: Any, numbers: Numbers) -> None:
    numbers.add(*range(10))
    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "twice", "topic": "single"}
    first, second = ottla.spark.sink(given), ottla.spark.sink(given)

    def run(name: str, function: Callable[[Any, int], None]) -> None:
        frame = as_text(spark.readStream.schema("value LONG").csv(str(numbers.directory / "in")))
        writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(numbers.directory / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    def twice(sinks: tuple[Any, Any]) -> Callable[[Any, int], None]:
        def both(frame: Any, batch: int) -> None:
            for sink in sinks:
                sink(frame, batch)

        return both

    with pytest.raises(Exception, match="the sink was given batch 7, and the stream runs batch 0"):
        run("cp", lambda frame, batch: first(frame, 7))
    for sinks in ((first, first), (first, second)):
        # The second iteration repeats batch 0, which is committed by then. A second frame for batch 0 is refused nevertheless.
        with pytest.raises(Exception, match="batch 0 is committed under 'twice', and was given to the sink again"):
            run("cp", twice(sinks))
    assert numbers.values("single") == list(range(10))
    run("cp", second)
    assert second.metrics.replays == 1
    assert numbers.values("single") == list(range(10))


def test_stream_reads_one_cluster_and_writes_to_another(spark: Any, numbers: Numbers) -> None:
    with Broker() as away:
        away.create_topic("far", partitions=2)
        for start in range(2):
            with KafkaClient(away.bootstrap) as cluster:
                cluster.produce("far", [NewRecord(b"%d" % n, partition=n % 2) for n in range(100 * start, 100 * start + 100)])
            for writer in ("tasks", "driver"):
                options = {"kafka.bootstrap.servers": away.bootstrap, "subscribe": "far", "startingOffsets": "earliest"}
                frame = spark.readStream.format("kafka").options(**options).load().selectExpr("value")
                target = "single" if writer == "tasks" else "numbers"
                given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": writer, "topic": target}
                query = frame.writeStream.foreachBatch(ottla.spark.sink({**given, "writer": writer}))
                query = query.option("checkpointLocation", str(numbers.directory / writer)).trigger(availableNow=True)
                query.start().awaitTermination()
                assert numbers.values(target) == list(range(100 * start + 100))
                assert numbers.broker.lag(f"ottla-pipeline.{writer}").keys() == {(target, 0)}
        assert ottla.spark.committed_offsets(numbers.broker.bootstrap, "tasks") == '{"far": {"0": 100, "1": 100}}'


def test_spark_metrics_include_the_sinks_metrics(spark: Any, numbers: Numbers) -> None:
    for start in range(2):
        numbers.add(*range(10))
        numbers.run(as_text, topic="single", transactional_id="counted")
        registry = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().metricsSystem().registry
        registry = registry() if callable(registry) else registry
        counters = {name: counter for name, counter in dict(registry.getCounters()).items() if ".ottla.counted." in name}
        shown = {name.partition(".ottla.counted.")[2]: counter.getCount() for name, counter in counters.items()}
        assert (shown["batches"], shown["records"], shown["records.single"]) == (start + 1, 10 * (start + 1), 10 * (start + 1))
        (last,) = (g for name, g in dict(registry.getGauges()).items() if name.endswith(".ottla.counted.last_batch"))
        assert last.getValue() == start


def test_progress_listener_gets_reports_of_spark_and_the_sink(spark: Any, numbers: Numbers) -> None:
    numbers.add(0, 1, 2, 2)
    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "heard", "topics": "even,odd"}
    sink = ottla.spark.sink(given)
    heard: list[StreamProgress] = []
    has_heard = threading.Event()

    def hear(progress: StreamProgress) -> None:
        heard.append(progress)
        has_heard.set()
        raise ZeroDivisionError("which ends nothing")

    listener = ottla.spark.listener(sink, hear, dead_letter_topic="odd")
    spark.streams.addListener(listener)
    try:
        once = spark.readStream.schema("value LONG").csv(str(numbers.directory / "in")).dropDuplicates(["value"])
        writer = by_parity(once).writeStream.foreachBatch(sink).option("checkpointLocation", str(numbers.directory / "cp"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert has_heard.wait(60)
    finally:
        spark.streams.removeListener(listener)
    (progress,) = heard
    assert (progress.rows, progress.repeated, progress.late, progress.dead_letters) == (4, 1, 0, 1)
    assert progress.report.by_topic == {"even": 2, "odd": 1}
    assert progress.report.epoch == sink.metrics.epoch >= 0
    # The metrics in the Prometheus format of Spark's servlet.
    jvm = spark.sparkContext._jvm
    registry = jvm.org.apache.spark.SparkEnv.get().metricsSystem().registry
    servlet = jvm.org.apache.spark.metrics.sink.PrometheusServlet(
        jvm.java.util.Properties(), registry() if callable(registry) else registry
    )
    lines = [line for line in servlet.getMetricsSnapshot(None).splitlines() if "_ottla_heard_" in line]
    shown = {line.partition("_ottla_heard_")[2].partition("{")[0]: line.rpartition(" ")[2] for line in lines}
    assert (shown["records_even_Count"], shown["repeated_Count"], shown["dead_letters_Count"]) == ("2", "1", "1")
    assert (shown["behind_Value"], shown["epoch_Value"]) == ("0", str(sink.metrics.epoch))


def test_write_once_dataframes_are_written_once(spark: Any, numbers: Numbers) -> None:
    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "frames", "topic": "single"}

    def write(name: str, number: int, *values: int) -> BatchReport:
        frame = spark.createDataFrame([(str(value),) for value in values], "value STRING")
        return ottla.spark.write_once(frame, given, name, number)

    before = len(numbers.values("single"))
    first = write("day", 0, 1, 2)
    assert (first.records, write("day", 0, 1, 2).is_replay, write("day", 0, 1, 2).is_replay) == (2, True, True)
    second = write("day", 1, 3)
    # Initializing the id and the commit raise the epoch by one each. A replay does not change the epoch.
    assert (second.records, second.epoch) == (1, first.epoch + 2)
    assert (write("day", 0, 1, 2).is_replay, write("day", 1, 3).is_replay) == (True, True)
    for number in (3, -1):
        with pytest.raises(ottla.spark.PipelineError, match=rf"frame {number} of 'day' cannot be written: the next one is frame 2"):
            write("day", number, 4)
    # Frames of each name have their own numbers, and the numbers of other names are still known.
    assert (write("another day", 0, 5).records, write("another day", 0, 5).is_replay, write("day", 1, 3).is_replay) == (
        1,
        True,
        True,
    )
    # Progress is in the progress topic and not in a consumer group, which could be deleted.
    admin = AdminClient({"bootstrap.servers": numbers.broker.bootstrap})
    assert "ottla-pipeline.frames" not in {group.group_id for group in admin.list_consumer_groups().result(30).valid}
    assert len(numbers.values("single")) == before + 4


@pytest.mark.parametrize("writer", ["tasks", "driver"])
def test_write_once_dataframes_of_an_older_ottla_version_are_recognized_by_their_group(
    spark: Any, numbers: Numbers, writer: str
) -> None:
    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": f"older-{writer}", "topic": "single"}
    frame = spark.createDataFrame([("1",)], "value STRING")
    cluster = cluster_client(Connecting(numbers.broker.bootstrap))
    mark = Mark("day", 1, "run", at="single", offsets=0)
    commit_plainly(cluster, group_of(f"older-{writer}"), commit_of(mark, {("single", 0): 1}), "committing")
    assert ottla.spark.write_once(frame, given | {"writer": writer}, "day", 1).is_replay
    assert ottla.spark.write_once(frame, given | {"writer": writer}, "day", 2).records == 1
    assert ottla.spark.write_once(frame, given | {"writer": writer}, "day", 2).is_replay
    stream = msgspec.structs.replace(mark, query=str(uuid.uuid4()))
    commit_plainly(cluster, group_of(f"older-{writer}"), commit_of(stream, {("single", 0): 1}), "committing")
    with pytest.raises(ottla.spark.PipelineError, match=f"a stream uses 'older-{writer}'"):
        ottla.spark.write_once(frame, given | {"writer": writer}, "day", 3)
    cluster.close()


def test_write_once_requires_a_progress_topic_and_exclusive_use_of_the_transactional_id(spark: Any, numbers: Numbers) -> None:
    given = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "frames", "topic": "single"}
    frame = spark.createDataFrame([("1",)], "value STRING")
    with pytest.raises(ottla.spark.PipelineError, match=r"write_once needs a progress topic, but progress\.topic=none disables it"):
        ottla.spark.write_once(frame, given | {"progress.topic": "none"}, "day")
    with (
        NOTES.writing((numbers.broker.bootstrap, "frames"), "frame 0 of 'day'"),
        pytest.raises(ottla.spark.PipelineError, match="two sinks of this process use 'frames' at the same time"),
    ):
        ottla.spark.write_once(frame, given, "day")
    assert numbers.values("single") == []


def test_sink_outside_a_stream_is_refused(spark: Any, numbers: Numbers) -> None:
    options = {"kafka.bootstrap.servers": numbers.broker.bootstrap, "transactional.id": "x", "topic": "single"}
    with pytest.raises(ottla.spark.PipelineError, match=r"give it to writeStream\.foreachBatch"):
        ottla.spark.sink(options)(spark.createDataFrame([("v",)], "value STRING"), 0)
