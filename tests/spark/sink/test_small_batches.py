"""Small batches that the driver gathers and writes itself: which batches count as small, and the fallback for large records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.spark.sink import row_writing, small_batches
from ottla.spark.sink.small_batches import MAX_OFFSETS, MAX_RECORD_BYTES, PAUSE_BATCHES, SmallBatches

wire = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

BATCH_RECORDS = 20


def test_spark_batch_counts_as_small_by_its_number_of_input_offsets() -> None:
    small = SmallBatches()
    t, u = ("t", 0), ("u", 1)
    assert not small.is_small({}, dict)
    assert not small.is_small({t: 5}, dict), "the start offset of the batch is unknown"
    assert small.is_small({t: 5 + MAX_OFFSETS}, dict), "the previous batch gives the start offset"
    assert not small.is_small({t: 6 + 2 * MAX_OFFSETS}, dict)
    # For a new partition, and for the first batch after a start, the checkpoint says where the batch begins.
    assert small.is_small({t: 6 + 2 * MAX_OFFSETS, u: 7}, lambda: {t: 6 + 2 * MAX_OFFSETS, u: 0})
    assert not small.is_small({t: 10 * MAX_OFFSETS, u: 7}, lambda: {t: 0, u: 0})
    assert not SmallBatches().is_small({t: 1}, lambda: {u: 0})


def test_large_record_disables_writing_by_the_spark_driver_for_a_while() -> None:
    small = SmallBatches()
    ends = {("t", 0): 1}
    assert small.is_small(ends, lambda: ends)
    small.note_large()
    assert [small.is_small(ends, lambda: ends) for _ in range(PAUSE_BATCHES + 1)] == [False] * PAUSE_BATCHES + [True]


class Stream:
    """A stream. ``gathered`` has an entry per batch that the driver tried to gather: False if the batch was too large."""

    def __init__(self, spark: Any, broker: Broker, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spark, self.broker, self.directory = spark, broker, directory
        self.gathered: list[bool] = []
        self.aborted: list[str] = []
        self.reports: list[ottla.spark.BatchReport] = []
        real = row_writing.gathered

        def gathered(rows: Any) -> Any:
            table = real(rows)
            self.gathered.append(table is not None)
            return table

        monkeypatch.setattr(row_writing, "gathered", gathered)

    def run(self, records: list[NewRecord], change: Callable[[Any], Any] = lambda frame: frame) -> ottla.spark.SinkMetrics:
        with KafkaClient(self.broker.bootstrap) as cluster:
            cluster.produce("in", records)
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": "in", "startingOffsets": "earliest"}
        frame = self.spark.readStream.format("kafka").options(**options, includeHeaders="true")
        frame = frame.option("maxOffsetsPerTrigger", str(BATCH_RECORDS)).load().select("key", "value", "headers")
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "transactional.id": "small", "topic": "out"}
        with ottla.spark.sink(given, on_batch=self.reports.append, on_abort=self._note_abort) as sink:
            writer = change(frame).writeStream.foreachBatch(sink).option("checkpointLocation", str(self.directory / "cp"))
            writer.trigger(availableNow=True).start().awaitTermination()
            return sink.metrics

    def _note_abort(self, batch: int, error: BaseException) -> None:
        self.aborted.append(str(error))

    def contents(self, topic: str) -> list[Any]:
        return sorted((r.key or b"", r.value or b"", tuple(r.headers)) for r in self.broker.records(topic))


@pytest.fixture
def stream(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    with Broker() as broker:
        broker.create_topic("in", partitions=1)
        broker.create_topic("out", partitions=3)
        yield Stream(spark, broker, tmp_path, monkeypatch)


def records(count: int, size_bytes: int = 10, first: int = 0) -> list[NewRecord]:
    return [
        NewRecord(b"%d" % n + b"v" * size_bytes, key=b"%d" % n, headers=[("n", b"%d" % n)]) for n in range(first, first + count)
    ]


class TestAStream:
    pytestmark = wire

    def test_spark_driver_writes_small_batches_from_the_first_batch(self, stream: Stream) -> None:
        metrics = stream.run(records(2 * BATCH_RECORDS))
        assert (metrics.batches, metrics.records, stream.gathered) == (2, 2 * BATCH_RECORDS, [True, True])
        stream.run(records(1, first=1_000))
        assert stream.gathered == [True] * 3
        assert stream.contents("out") == stream.contents("in")
        # The keys determine the partitions, as in Kafka's own producers.
        assert len({record.partition for record in stream.broker.records("out")}) == 3

    @pytest.mark.parametrize("where", ["value", "key", "headers"])
    def test_batch_with_a_large_record_is_written_by_spark_tasks(self, stream: Stream, where: str) -> None:
        large = b"x" * (MAX_RECORD_BYTES + 1)
        record = NewRecord(
            large if where == "value" else b"v",
            key=large if where == "key" else b"k",
            headers=[("h", large if where == "headers" else b"")],
        )
        metrics = stream.run([*records(BATCH_RECORDS - 1), record, *records(BATCH_RECORDS, first=100)])
        assert (metrics.batches, metrics.aborted, stream.gathered) == (2, 0, [False])
        assert stream.contents("out") == stream.contents("in")

    def test_batch_with_more_rows_than_input_offsets_is_written_by_spark_tasks(self, stream: Stream) -> None:
        """The number of input offsets does not determine the number of rows, as with explode."""
        many = MAX_OFFSETS // BATCH_RECORDS + 1
        copies = f"explode(sequence(1, {many})) AS copy"
        metrics = stream.run(records(BATCH_RECORDS), lambda frame: frame.selectExpr("key", "value", copies).drop("copy"))
        assert (metrics.batches, metrics.records, metrics.aborted) == (1, many * BATCH_RECORDS, 0)
        assert stream.gathered == [False]

    def test_rows_that_the_spark_driver_gathers_are_limited_in_bytes(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(small_batches, "MAX_BYTES", 1_000)
        stream.run(records(BATCH_RECORDS, 100))
        assert stream.gathered == [False]
        assert stream.contents("out") == stream.contents("in")

    def test_spark_driver_does_not_wait_for_all_rows_of_a_batch_that_is_too_large(
        self, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each of 40 Spark partitions has few rows, so that only their sum is too large."""
        monkeypatch.setattr(small_batches, "MAX_BYTES", 100_000)
        arrived: list[int] = []
        limit = small_batches._limit

        def counted() -> Callable[[Any], bool]:
            is_accepted = limit()

            def count(batch: Any) -> bool:
                arrived.append(batch.nbytes)
                return is_accepted(batch)

            return count

        monkeypatch.setattr(small_batches, "_limit", counted)

        def many(frame: Any) -> Any:
            exploded = frame.selectExpr("key", "value", "explode(sequence(1, 100)) AS copy").drop("copy")
            return exploded.repartition(40, "key")

        stream.spark.conf.set("spark.sql.adaptive.enabled", "false")
        try:
            metrics = stream.run(records(BATCH_RECORDS, 200), many)
        finally:
            stream.spark.conf.unset("spark.sql.adaptive.enabled")
        assert (metrics.batches, metrics.records, metrics.aborted) == (1, 100 * BATCH_RECORDS, 0)
        assert stream.gathered == [False]
        assert sum(arrived[:-1]) <= 100_000 < sum(arrived) < 100 * BATCH_RECORDS * 200
        # Other jobs of the session were not cancelled, and its next small batch is gathered.
        assert stream.spark.range(10).count() == 10
        assert len(stream.contents("out")) == 100 * BATCH_RECORDS

    def test_small_batch_rows_without_key_and_headers_are_written(self, stream: Stream) -> None:
        stream.run(records(BATCH_RECORDS), lambda frame: frame.selectExpr("CAST(value AS STRING) AS value"))
        assert stream.gathered == [True]
        assert [(key, headers) for key, _, headers in stream.contents("out")] == [(b"", ())] * BATCH_RECORDS

    def test_failed_gathering_of_a_small_batch_falls_back_to_spark_tasks(
        self, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Spark raises the simulated error if results exceed spark.driver.maxResultSize."""

        def failing(rows: Any) -> Any:
            raise RuntimeError("Total size of serialized results is bigger than spark.driver.maxResultSize")

        monkeypatch.setattr(row_writing, "gathered", failing)
        metrics = stream.run(records(BATCH_RECORDS))
        assert (metrics.batches, metrics.aborted, len(stream.aborted)) == (1, 1, 1)
        assert [(report.batch, report.retries) for report in stream.reports] == [(0, 1)]
        assert stream.contents("out") == stream.contents("in")

    def test_jobs_of_a_batch_have_a_name_in_the_spark_ui(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        """The driver gathers the first batch, and tasks write the second batch."""
        monkeypatch.setattr(stream, "gathered", [])
        large = NewRecord(b"x" * (MAX_RECORD_BYTES + 1))
        stream.run([*records(BATCH_RECORDS), large])
        assert stream.gathered == [True, False]
        jobs = stream.spark.sparkContext._jsc.sc().statusStore().jobsList(None)
        found = {job.description().get() for job in map(jobs.apply, range(jobs.size())) if job.description().isDefined()}
        assert {"ottla: transaction of small, batch 0", "ottla: transaction of small, batch 1"} <= found

    def test_invalid_row_in_a_small_batch_ends_the_stream_at_once(self, stream: Stream) -> None:
        with pytest.raises(Exception, match="topic 'out' has no partition 3: it has 3"):
            stream.run(records(1), lambda frame: frame.selectExpr("*", "3 AS partition"))
        assert (stream.gathered, stream.aborted, stream.contents("out")) == ([True], [], [])
