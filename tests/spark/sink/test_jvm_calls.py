"""The number of JVM calls per batch, and whether state that the sink caches between batches stays valid."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.clientserver import JavaClient

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.client.wire.connection import BrokerConnection
from ottla.protocol.messages.metadata import MetadataRequest

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

BATCHES, BATCH_RECORDS = 8, 50
CALLS_AT_MOST = 45
"""Upper bound on JVM calls in a small batch that is not the first, including the calls of toArrow."""
GARBAGE = "m\n"
"""The command that py4j sends after Python has freed a JVM object, at an unpredictable time."""

Function = Callable[[Any, int], None]


class Numbers:
    """A stream of numbered records that is stopped and restarted."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        self.broker, self.directory = broker, directory
        self._sent = 0

    def sink(self, **options: str) -> ottla.spark.ExactlyOnceSink:
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "transactional.id": "numbers", "topic": "out"}
        return ottla.spark.sink(given | options)

    def add(self, batches: int) -> None:
        with KafkaClient(self.broker.bootstrap) as cluster:
            numbers = range(self._sent, self._sent + batches * BATCH_RECORDS)
            cluster.produce("in", [NewRecord(b"%d" % n, key=b"key-%d" % n) for n in numbers])
        self._sent = numbers.stop

    def run(self, spark: Any, function: Function, checkpoint: str = "cp") -> None:
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": "in", "startingOffsets": "earliest"}
        frame = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=str(BATCH_RECORDS)).load()
        writer = frame.select("key", "value").writeStream.foreachBatch(function)
        writer = writer.option("checkpointLocation", str(self.directory / checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    def written(self, topic: str = "out") -> list[int]:
        return sorted(int(record.value or b"") for record in self.broker.records(topic))


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Numbers]:
    with Broker() as broker:
        for topic in ("in", "out", "other"):
            broker.create_topic(topic, partitions=1 if topic == "in" else 2)
        yield Numbers(broker, tmp_path)


def test_sink_writes_a_small_batch_with_few_jvm_calls(spark: Any, numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    counting: set[int] = set()
    send = JavaClient.send_command

    def counted(client: Any, command: str, *given: Any, **named: Any) -> Any:
        if threading.get_ident() in counting and not command.startswith(GARBAGE):
            calls[-1] += 1
        return send(client, command, *given, **named)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    sink = numbers.sink()

    def write(frame: Any, batch: int) -> None:
        calls.append(0)
        counting.add(threading.get_ident())
        try:
            sink(frame, batch)
        finally:
            counting.clear()

    numbers.add(BATCHES)
    numbers.run(spark, write)
    assert numbers.written() == list(range(BATCHES * BATCH_RECORDS))
    assert len(calls) == BATCHES
    # The minimum of several batches counts, because a batch repeats the query for the stage's status until Spark knows it.
    assert 0 < min(calls) <= CALLS_AT_MOST, calls


def test_sink_sends_few_requests_per_small_batch(spark: Any, numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch asks for the partitions of the output topic, so that added partitions are used, and twice for the ids of the input
    topics, before the first record and before the commit (docs/internals/spark.md)."""
    sent: list[Counter[str]] = []
    send = BrokerConnection.send

    def counted(connection: BrokerConnection, request: Any, at_most: int | None = None) -> tuple[int, int]:
        if sent:
            topics = [topic.name for topic in request.topics] if isinstance(request, MetadataRequest) else []
            sent[-1][" ".join([type(request).__name__.removesuffix("Request"), *topics])] += 1
        return send(connection, request, at_most)

    monkeypatch.setattr(BrokerConnection, "send", counted)
    sink = numbers.sink()

    def write(frame: Any, batch: int) -> None:
        sent.append(Counter())
        sink(frame, batch)

    numbers.add(3)
    numbers.run(spark, write)
    assert len(sent) == 3
    # The first batch finds coordinators and leaders, reads the progress and claims the id.
    one = {"Metadata out": 1, "Metadata in": 2, "Metadata ottla-progress": 1, "Produce": 2, "TxnOffsetCommit": 1, "EndTxn": 1}
    assert [dict(counts) for counts in sent[1:]] == [one, one]


def test_sink_serves_a_stream_restarted_in_other_sessions(spark: Any, other_spark: Any, numbers: Numbers) -> None:
    sink = numbers.sink()
    runs: dict[str, list[int]] = {}

    def write(frame: Any, batch: int) -> None:
        sink(frame, batch)
        runs.setdefault(frame.sparkSession.sparkContext.getLocalProperty("spark.jobGroup.id"), []).append(batch)

    for start, session in enumerate((spark, spark, other_spark), 1):
        numbers.add(2)
        numbers.run(session, write)
        assert numbers.written() == list(range(start * 2 * BATCH_RECORDS))
    assert list(runs.values()) == [[0, 1], [2, 3], [4, 5]]
    # Each run of a stream has exactly the reports of its own batches.
    for run, batches in runs.items():
        assert [batch for batch in range(6) if sink.report(run, batch) is not None] == batches


def test_sink_recognizes_its_stream_under_another_job_group(spark: Any, numbers: Numbers) -> None:
    sink = numbers.sink()

    def write(frame: Any, batch: int) -> None:
        frame.sparkSession.sparkContext.setJobGroup("mine", "jobs of my own")
        sink(frame, batch)

    numbers.add(3)
    numbers.run(spark, write)
    assert numbers.written() == list(range(3 * BATCH_RECORDS))


def test_sink_distinguishes_a_second_stream_from_the_previous_stream(spark: Any, numbers: Numbers) -> None:
    sink = numbers.sink()
    numbers.add(3)
    numbers.run(spark, sink)
    with pytest.raises(Exception, match="came from another checkpoint"):
        numbers.run(spark, sink, "cp-2")
    assert numbers.written() == list(range(3 * BATCH_RECORDS))
    numbers.add(2)
    numbers.run(spark, sink)
    assert numbers.written() == list(range(5 * BATCH_RECORDS))


def test_two_sinks_with_different_transactional_ids_write_each_batch_of_a_spark_stream(spark: Any, numbers: Numbers) -> None:
    ours, theirs = numbers.sink(), numbers.sink(**{"transactional.id": "others", "topic": "other"})

    def both(frame: Any, batch: int) -> None:
        ours(frame, batch)
        theirs(frame, batch)

    numbers.add(3)
    numbers.run(spark, both)
    assert numbers.written() == numbers.written("other") == list(range(3 * BATCH_RECORDS))


def test_sink_batches_may_have_different_columns(spark: Any, numbers: Numbers) -> None:
    sink = numbers.sink()
    changes: list[list[str]] = [
        ["key", "value"],
        ["CAST(value AS STRING) AS value"],
        ["CAST(value AS STRING) AS value", "1 AS partition"],
        ["key", "value", "array(named_struct('key', 'h', 'value', CAST('v' AS BINARY))) AS headers"],
        ["key", "value"],
    ]
    numbers.add(len(changes))
    numbers.run(spark, lambda frame, batch: sink(frame.selectExpr(*changes[batch]), batch))
    records = {int(record.value or b""): record for record in numbers.broker.records("out")}
    assert sorted(records) == list(range(len(changes) * BATCH_RECORDS))
    for number, record in records.items():
        columns = changes[number // BATCH_RECORDS]
        assert (record.key is not None) == ("key" in columns)
        assert bool(record.headers) == any("headers" in column for column in columns)
        assert record.partition == 1 or not any("partition" in column for column in columns)

    numbers.add(1)
    with pytest.raises(Exception, match="the rows have no column 'value'"):
        numbers.run(spark, lambda frame, batch: sink(frame.select("key"), batch))
    assert len(numbers.written()) == len(records)
