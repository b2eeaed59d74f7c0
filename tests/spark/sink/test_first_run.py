"""A session that is started without any setting: workers run the driver's interpreter, and frames are written by format name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("in", "out", "audit", "dead"):
            broker.create_topic(topic, partitions=2)
        yield broker


def options_of(broker: Broker, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": "first"}
    return given | {name.replace("_", "."): value for name, value in more.items()}


def values(broker: Broker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.records(topic))


def test_dataframe_with_the_option_frame_name_is_written_once_by_the_ottla_format(spark: Any, broker: Broker) -> None:
    ottla.spark.register(spark)
    options = options_of(broker, topic="out")
    frame = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")

    def write(**more: str) -> None:
        given = options | {"frame." + k: v for k, v in more.items()}
        ottla.spark.arranged(frame, given).write.format("ottla").options(**given).mode("append").save()

    for _ in range(2):
        write(name="day")
        assert len(values(broker, "out")) == 100
    write(name="day", number="1")
    assert len(values(broker, "out")) == 200
    report = ottla.spark.write_once(frame, options, "day", 1)
    assert report.is_replay
    for more, says in (
        ({}, "needs the option 'frame.name'"),
        ({"name": "day", "number": "3"}, "the next one is frame 2"),
        ({"name": "day", "number": "-1"}, "numbered from 0"),
    ):
        with pytest.raises(Exception, match=says):
            write(**more)
    with pytest.raises(Exception, match=r"give mode\('append'\)"):
        ottla.spark.arranged(frame, options).write.format("ottla").options(**options).mode("overwrite").save()
    assert len(values(broker, "out")) == 200


def test_spark_dataframe_whose_task_fails_leaves_no_records(spark: Any, broker: Broker) -> None:
    from pyspark.sql import functions as f

    ottla.spark.register(spark)
    options = options_of(broker, topic="out")
    frame = spark.range(100).select(f.col("id").cast("string").alias("key"), f.expr("CAST(id AS STRING) AS value"))
    failing = ottla.spark.arranged(frame.withColumn("value", f.expr("IF(key = '77', raise_error('no'), value)")), options)
    with pytest.raises(Exception, match="no"):
        failing.write.format("ottla").options(**options, **{"frame.name": "day"}).mode("append").save()
    assert values(broker, "out") == []
    rows = ottla.spark.arranged(frame, options)
    rows.write.format("ottla").options(**options, **{"frame.name": "day"}).mode("append").save()
    assert len(values(broker, "out")) == 100


def test_several_spark_sinks_write_one_batch_at_the_same_time(spark: Any, broker: Broker, tmp_path: Path) -> None:
    with KafkaClient(broker.bootstrap) as client:
        client.produce("in", [NewRecord(b"%03d" % n) for n in range(300)])
    common = {"kafka.bootstrap.servers": broker.bootstrap}
    named: dict[str, dict[str, str]] = {
        "out": {"transactional.id": "to-out", "topic": "out"},
        "audit": {"transactional.id": "to-audit", "topic": "audit"},
    }
    source = {**common, "subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    frame = spark.readStream.format("kafka").options(**source).load().selectExpr("value")
    has_failed: list[int] = []
    with ottla.spark.sinks(common, **named) as sinks:

        def write(rows: Any, batch: int) -> None:
            sinks.write(batch, out=rows, audit=rows.selectExpr("value", "value AS key"))
            if batch == 1 and not has_failed:
                has_failed.append(batch)
                raise RuntimeError("after both sinks have committed")

        def run() -> Any:
            writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "cp"))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return query

        with pytest.raises(Exception, match="after both sinks have committed"):
            run()
        run()
        assert {name: one.replays for name, one in sinks.metrics.items()} == {"out": 1, "audit": 1}
    expected = [b"%03d" % n for n in range(300)]
    assert values(broker, "out") == values(broker, "audit") == expected


def test_records_that_cannot_be_decoded_are_written_once_as_dead_letters(spark: Any, broker: Broker, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    good = [json.dumps({"id": n, "name": f"n{n}"}).encode() for n in range(100)]
    bad = [b"", b"no json", b'{"id": 1}', b'{"id": 1, "name": "a", "id": 2}', b"\xff"]
    with KafkaClient(broker.bootstrap) as client:
        client.produce("in", [NewRecord(value, key=b"k") for value in (*good, *bad)])
        client.produce("in", [NewRecord(None, key=b"tombstone")])
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "in", "maxOffsetsPerTrigger": "40"}
    events = ottla.spark.read(spark, source, "id LONG, name STRING")
    rows = events.written(
        lambda records: records.select(f.lit("out").alias("topic"), "key", f.to_json("row").alias("value")), "dead"
    )
    sink = ottla.spark.sink(options_of(broker, topics="out,dead"))
    for _ in range(2):
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "cp"))
        writer.trigger(availableNow=True).start().awaitTermination()
        # Undo Spark's commit, as if the driver had been killed before Spark committed the last batch.
        last = max(int(path.name) for path in (tmp_path / "cp" / "commits").iterdir() if path.name.isdecimal())
        for name in (f"{last}", f".{last}.crc"):
            (tmp_path / "cp" / "commits" / name).unlink()
    assert [json.loads(value) for value in values(broker, "out")] == sorted(
        ({"id": n, "name": f"n{n}"} for n in range(100)), key=lambda row: json.dumps(row).replace(" ", "")
    )
    letters = broker.records("dead")
    assert sorted((letter.value or b"") for letter in letters) == sorted([*bad, b""])
    reasons = {letter.value: dict(letter.headers)["ottla.reason"] for letter in letters}
    assert reasons[b"no json"] == b"the value is not one JSON object"
    assert all((dict(letter.headers)["ottla.source"] or b"").startswith(b"in-") for letter in letters)
    with pytest.raises(ottla.spark.PipelineError, match="have no column 'topic'"):
        events.written(lambda records: records.select("key", f.to_json("row").alias("value")), "dead")


def test_stream_of_sparks_kafka_sink_continues_in_ottlas_sink_with_the_same_checkpoint(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """docs/spark-from-kafka-sink.md moves a stream that was stopped between two batches, with its checkpoint, to ottla's sink."""

    def add(first: int) -> None:
        with KafkaClient(broker.bootstrap) as client:
            client.produce("in", [NewRecord(b"%03d" % n) for n in range(first, first + 100)])

    address = {"kafka.bootstrap.servers": broker.bootstrap}
    frame = spark.readStream.format("kafka").options(**address, subscribe="in", startingOffsets="earliest").load()
    frame = frame.selectExpr("key", "value")
    tuned = {"kafka.acks": "all", "kafka.linger.ms": "20", "topic": "out"}

    def run(writer: Any) -> None:
        writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()

    add(0)
    run(frame.writeStream.format("kafka").options(**address, **tuned))
    with ottla.spark.sink({**address, **tuned, "transactional.id": "first"}) as sink:
        for first in (100, 200):
            add(first)
            run(frame.writeStream.foreachBatch(sink))
    assert values(broker, "out") == [b"%03d" % n for n in range(300)]


def test_sinks_called_in_threads_of_the_user_need_inheritable_threads(spark: Any, broker: Broker, tmp_path: Path) -> None:
    from pyspark import InheritableThread

    with KafkaClient(broker.bootstrap) as client:
        client.produce("in", [NewRecord(b"%03d" % n) for n in range(100)])
    source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "in", "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**source).load().selectExpr("value")
    sinks = [ottla.spark.sink(options_of(broker, topic=topic, transactional_id=topic)) for topic in ("out", "audit")]
    kinds: list[Any] = [threading.Thread, InheritableThread]
    errors: list[str] = []

    def write(rows: Any, batch: int) -> None:
        failed: list[BaseException] = []

        def call(sink: Any) -> None:
            try:
                sink(rows, batch)
            except BaseException as error:
                failed.append(error)

        threads = [kinds[0](target=call, args=(sink,)) for sink in sinks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            errors.append(str(failed[0]))
            raise failed[0]

    def run() -> None:
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "cp"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match=r"start that thread as a pyspark\.InheritableThread"):
        run()
    del kinds[0]
    run()
    for sink in sinks:
        sink.close()
    assert len(errors) == 1
    assert values(broker, "out") == values(broker, "audit") == [b"%03d" % n for n in range(100)]
