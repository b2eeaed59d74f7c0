"""``format("ottla")`` in streams: as a source over growing segment files, and as a sink."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import ottla.spark
from ottla import Broker

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

PARTITIONS = 3
STARTS = 6
LATE_WORKER = "Python worker failed to connect back"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path / "data") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, partitions=PARTITIONS)
        yield broker


def fill(broker: Broker, first: int, count: int, *, commit: bool = True) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "feeder", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(first, first + count):
        producer.produce("in", b"%d" % n, b"%d" % n)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


def values(broker: Broker, topic: str = "out") -> list[int]:
    return sorted(int(record.value or b"") for record in broker.records(topic))


def caught_up(start: Callable[[], Any]) -> Any:
    """Start a stream and wait until it has read all data. Returns the query.

    Spark fails a stream whose Python worker does not connect within 10 s, which no setting changes. Such a stream is started again.
    """
    for _ in range(STARTS):
        query = start()
        try:
            query.processAllAvailable()
        except Exception as error:
            query.stop()
            if LATE_WORKER not in str(error):
                raise
        else:
            return query
    pytest.fail(f"{LATE_WORKER}, {STARTS} times")


class Copying:
    """A stream that copies segment files to a topic, with ``format("ottla")`` as source and sink."""

    def __init__(self, spark: Any, broker: Broker, directory: Path) -> None:
        self.spark, self.directory = spark, directory
        self.source = {"path": str(directory / "data"), "subscribe": "in", "startingOffsets": "earliest"}
        self.sink = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": "copy", "topic": "out"}

    def start(self, checkpoint: str = "cp", arrange: bool = True) -> Any:
        frame = self.spark.readStream.format("ottla").options(**self.source).load().selectExpr("key", "value")
        frame = ottla.spark.arranged(frame, self.sink) if arrange else frame
        writer = frame.writeStream.format("ottla").options(**self.sink)
        return writer.option("checkpointLocation", str(self.directory / checkpoint)).start()

    def run(self, checkpoint: str = "cp", arrange: bool = True) -> None:
        caught_up(lambda: self.start(checkpoint, arrange)).stop()


@pytest.fixture
def copying(spark: Any, broker: Broker, tmp_path: Path) -> Copying:
    return Copying(spark, broker, tmp_path)


def test_ottla_format_copies_committed_records_once_across_restarts(copying: Copying, broker: Broker, tmp_path: Path) -> None:
    fill(broker, 0, 1_000)
    fill(broker, 5_000, 10, commit=False)
    copying.run()
    assert values(broker) == list(range(1_000))
    fill(broker, 1_000, 500)
    copying.run()
    # The driver died after EndTxn and before Spark's own commit of the batch.
    last = max(int(path.name) for path in (tmp_path / "cp" / "commits").iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (tmp_path / "cp" / "commits" / name).unlink()
    fill(broker, 1_500, 500)
    copying.run()
    assert values(broker) == list(range(2_000))
    assert broker.describe_transaction("copy").state != "Ongoing"


def test_spark_configurations_without_exactly_once_are_refused_by_the_ottla_format(
    copying: Copying, broker: Broker, tmp_path: Path
) -> None:
    fill(broker, 0, 100)
    with pytest.raises(Exception, match=r"format\('ottla'\) needs the result of ottla\.spark\.arranged"):
        copying.run(arrange=False)
    copying.run()
    with pytest.raises(Exception, match="the last batch under this transactional id came from another checkpoint"):
        copying.run("other")
    shutil.rmtree(tmp_path / "cp" / "commits")
    shutil.copytree(tmp_path / "cp", tmp_path / "old")
    fill(broker, 100, 100)
    copying.run()
    fill(broker, 200, 100)
    copying.run()
    with pytest.raises(Exception, match="an older checkpoint was restored"):
        copying.run("old")
    assert values(broker) == list(range(300))


def test_sink_is_refused_where_stages_may_be_retried(spark: Any) -> None:
    from ottla.spark.sink.datasource import OttlaSource

    with pytest.raises(ottla.spark.PipelineError, match=r"maxConsecutiveAttempts=1 .*, or, without Spark Connect, give ottla"):
        OttlaSource({}).streamWriter(spark.range(1).schema, overwrite=False)
    with pytest.raises(ottla.spark.PipelineError, match=r"maxConsecutiveAttempts=1 .*, or, without Spark Connect, call ottla"):
        OttlaSource({}).writer(spark.range(1).schema, overwrite=False)


def test_segment_stream_begins_at_the_offsets_in_its_option(spark: Any, broker: Broker, tmp_path: Path) -> None:
    fill(broker, 0, 300)
    reader = spark.readStream.format("ottla").option("path", str(tmp_path / "data")).option("subscribe", "in")

    def seen(name: str, frame: Any) -> int:
        query = caught_up(frame.writeStream.format("memory").queryName(name).start)
        try:
            fill(broker, 300, 100)
            query.processAllAvailable()
        finally:
            query.stop()
        return int(spark.table(name).count())

    assert seen("later", reader.load()) == 100
    assert seen("earlier", reader.option("startingOffsets", "earliest").load()) == 500
    with pytest.raises(Exception, match="has no option 'subscrib'"):
        reader.option("subscrib", "in").load().writeStream.format("noop").start().processAllAvailable()


def test_segment_stream_batches_stay_bounded_after_a_restart(spark: Any, broker: Broker, tmp_path: Path) -> None:
    fill(broker, 0, 400)
    reader = spark.readStream.format("ottla").option("path", str(tmp_path / "data")).option("subscribe", "in")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "150")
    frame = reader.option("checkpointLocation", str(tmp_path / "cp")).load().selectExpr("value")
    counts: list[int] = []
    values: list[int] = []

    def keep(rows: Any, batch: int) -> None:
        of_batch = [int(bytes(row.value)) for row in rows.collect()]
        counts.append(len(of_batch))
        values.extend(of_batch)

    for more in (0, 300):
        fill(broker, 400, more)
        caught_up(frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "cp")).start).stop()
    assert sorted(values) == list(range(700))
    assert max(counts) <= 150 + PARTITIONS


def test_segment_source_without_records_has_no_rows(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """A source without records: an empty topic, deleted records, or a start after the last record. Spark's own source also gives no
    rows."""
    ottla.spark.register(spark)
    source = {"path": str(tmp_path / "data"), "subscribe": "in"}
    assert spark.read.format("ottla").options(**source).load().count() == 0
    fill(broker, 0, 10)
    after = spark.read.format("ottla").options(**source, startingTimestamp=str(1 << 41))
    assert after.load().collect() == []
    stream = spark.readStream.format("ottla").options(**source, startingOffsets="latest").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None


def test_sql_reads_segment_files_by_a_temporary_view_and_cannot_insert(spark: Any, broker: Broker, tmp_path: Path) -> None:
    fill(broker, 0, 10)
    ottla.spark.register(spark)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW purchases USING ottla OPTIONS (path '{tmp_path / 'data'}', subscribe 'in')")
    try:
        row = spark.sql(
            "SELECT count(*) AS count, max(CAST(CAST(value AS STRING) AS INT)) AS largest FROM purchases WHERE partition >= 0"
        ).first()
        assert (row["count"], row.largest) == (10, 9)
        # The options of a view are those of the source, so that a job that runs again looks like a second INSERT.
        with pytest.raises(Exception, match=r"format\('ottla'\) needs the option 'frame\.name'"):
            spark.sql("INSERT INTO purchases SELECT * FROM purchases").collect()
    finally:
        spark.catalog.dropTempView("purchases")
    assert values(broker, "in") == list(range(10))


def test_stream_to_a_table_of_the_format_writes_each_record_once(
    spark: Any, broker: Broker, copying: Copying, tmp_path: Path
) -> None:
    fill(broker, 0, 100)
    ottla.spark.register(spark)
    spark.sql("DROP TABLE IF EXISTS copies")
    try:
        for total in (100, 150):
            frame = spark.readStream.format("ottla").options(**copying.source).load().selectExpr("key", "value")
            writer = ottla.spark.arranged(frame, copying.sink).writeStream.format("ottla").options(**copying.sink)
            writer = writer.option("path", str(tmp_path / "table")).option("checkpointLocation", str(tmp_path / "cp"))
            caught_up(lambda writer=writer: writer.toTable("copies")).stop()
            assert values(broker) == list(range(total))
            fill(broker, total, 50)
            # The second start needs a new table: Spark writes to an existing table of a Python source only from SQL.
            spark.sql("DROP TABLE copies")
    finally:
        spark.sql("DROP TABLE IF EXISTS copies")
