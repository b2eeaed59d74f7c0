"""A session that is started without any setting: workers run the driver's interpreter, and frames are written by format name."""

from __future__ import annotations

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


def test_several_sinks_write_one_batch_at_the_same_time(spark: Any, broker: Broker, tmp_path: Path) -> None:
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


def test_stream_of_sparks_own_sink_continues_with_its_checkpoint(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """docs/spark-from-kafka-sink.md: a stream that was stopped between two batches keeps its checkpoint."""

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
