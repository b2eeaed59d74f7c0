"""Marks in a compacted topic: what a group forgets, or was made to forget, is still known. No Spark here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.spark.checkpoint import InputEnds
from ottla.spark.connecting import Connecting
from ottla.spark.driver import DriverTransaction
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.exactly_once import ExactlyOnce
from ottla.spark.mark_log import MarkLog, last_mark
from ottla.spark.marks import Ends, Mark
from ottla.spark.options import SinkOptions, parse_options
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.transaction import Transaction
from ottla.spark.wire import ClusterClient
from ottla.spark.writer import TaskWriter, Written
from tests.support import oracle
from tests.support.shared_kafka import shared_kafka

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]

LOG = "marks"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(clock="manual") as broker:
        yield broker


class Stream:
    """A stream of batches of one record, by tasks or by a driver; ``name`` is its id and its topic."""

    def __init__(self, bootstrap: str, name: str, by_driver: bool = False) -> None:
        self.cluster = ClusterClient(Connecting(bootstrap))
        self.log = MarkLog(self.cluster, LOG)
        self.log.open()
        self.name, self._by_driver = name, by_driver
        options = SinkOptions(connecting=self.cluster.connecting, transactional_id=name)
        transaction: Any = Transaction(self.cluster, name, mark_log=self.log)
        if by_driver:
            transaction = DriverTransaction(self.cluster, options, self.log)
        self.sink: ExactlyOnce[Any] = ExactlyOnce(transaction, "run")

    def write(self, batch: int, *, fail: bool = False) -> Any:
        def tasks(producer: Any) -> list[Written]:
            value = b"%d" % batch
            if self._by_driver:
                written: list[Written] = producer.write([(self.name, b"k", value, [], 0)], {self.name: 1})
            else:
                writer = TaskWriter(self.cluster.connecting, producer)
                columns = [pa.array([self.name]), pa.array([0], pa.int32()), pa.array([b"k"]), pa.array([value])]
                names = ["topic", "partition", "key", "value", "headers"]
                writer.write(pa.RecordBatch.from_arrays([*columns, pa.nulls(1, COLUMNS["headers"])], names), 1)
                written = writer.finish()
            if fail:
                raise ZeroDivisionError
            return written

        return self.sink.write("q", batch, tasks, InputEnds("", {(self.name, 0): batch + 1}))


def kept(stream: Stream) -> tuple[Mark, Ends] | None:
    """What the log has, but the ids of topics, which the broker has chosen."""
    last = stream.log.read(stream.name)
    return None if last is None else (last.mark, last.ends)


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


@pytest.mark.parametrize("by_driver", [False, True], ids=["tasks", "driver"])
def test_a_stream_goes_on_whose_group_is_gone(broker: Broker, by_driver: bool) -> None:
    name = f"gone-{by_driver}"
    broker.create_topic(name, partitions=1, configs={"retention.ms": "-1"})
    first = Stream(broker.bootstrap, name, by_driver)
    first.sink.start()
    for batch in range(3):
        first.write(batch)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_consumer_groups([f"ottla-pipeline.{name}"]).values():
        future.result(60)
    again = Stream(broker.bootstrap, name, by_driver)
    assert again.sink.start() == Mark("q", 2, "run", offsets=1)
    assert again.write(2).is_replay
    with pytest.raises(ZeroDivisionError):
        again.write(3, fail=True)
    assert last_mark(again.cluster, name, again.log) == Mark("q", 2, "run", offsets=1)
    again.write(3)
    assert values(broker, name) == [b"0", b"1", b"2", b"3"]
    assert kept(again) == (Mark("q", 3, "run", offsets=1), {name: {"0": 4}})


def test_marks_outlive_retention_of_offsets_and_ids(broker: Broker) -> None:
    broker.create_topic("slow", partitions=1, configs={"retention.ms": "-1"})
    stream = Stream(broker.bootstrap, "slow")
    stream.sink.start()
    stream.write(0)
    broker.clock.advance("30d")
    assert last_mark(stream.cluster, "slow", None) is None
    with pytest.raises(PipelineError, match="nothing was committed as 'slow'"):
        ottla.spark.committed_offsets(broker.bootstrap, "slow")
    assert ottla.spark.committed_offsets(broker.bootstrap, "slow", LOG) == '{"slow": {"0": 1}}'
    again = Stream(broker.bootstrap, "slow")
    again.sink.start()
    assert again.write(0).is_replay
    again.write(1)
    assert values(broker, "slow") == [b"0", b"1"]


def test_a_mark_is_part_of_its_transaction(broker: Broker) -> None:
    """What an open or an aborted one says counts for nothing, and hides no other's."""
    for name in ("open", "other"):
        broker.create_topic(name, partitions=1)
    stream, other = Stream(broker.bootstrap, "open"), Stream(broker.bootstrap, "other")
    for one in (stream, other):
        one.sink.start()
        one.write(0)
    transaction: Any = stream.sink._transaction
    transaction.mark(Mark("q", 1, "run"), {("open", 0): 2})
    other.write(1)
    assert [kept(one) for one in (stream, other)] == [
        (Mark("q", 0, "run", offsets=1), {"open": {"0": 1}}),
        (Mark("q", 1, "run", offsets=1), {"other": {"0": 2}}),
    ]
    Stream(broker.bootstrap, "open").sink.start()
    with pytest.raises(Fenced):
        transaction.mark(Mark("q", 1, "run"), {("open", 0): 2})
    assert kept(stream) == (Mark("q", 0, "run", offsets=1), {"open": {"0": 1}})
    assert stream.log.read("nobody") is None


def test_what_a_person_is_told(broker: Broker) -> None:
    cluster = ClusterClient(Connecting(broker.bootstrap))
    broker.create_topic("fleeting", partitions=1)
    with pytest.raises(
        PipelineError, match=r"'fleeting' is to keep marks \(mark\.log\.topic\), and its cleanup\.policy is 'delete'"
    ):
        MarkLog(cluster, "fleeting").open()
    with KafkaClient(broker.bootstrap) as client:
        client.produce("fleeting", [NewRecord(b"no mark", key=b"me")])
    with pytest.raises(PipelineError, match="'fleeting' holds a record that is no mark"):
        MarkLog(cluster, "fleeting").read("me")
    assert MarkLog(cluster, "fleeting").read("somebody else") is None
    options = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": "x", "topic": "t", "mark.log.topic": "t"}
    with pytest.raises(PipelineError, match=r"option 'mark\.log\.topic' is a topic that the rows go to"):
        parse_options(options)


@pytest.mark.full
@pytest.mark.java
def test_apache_kafka_keeps_marks_as_well() -> None:
    kafka, topic = shared_kafka(), f"marked-{uuid.uuid4().hex[:8]}"
    with KafkaClient(kafka.bootstrap, timeout_s=oracle.LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        stream = Stream(kafka.bootstrap, topic)
        stream.sink.start()
        for batch in range(3):
            stream.write(batch)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.delete_consumer_groups([f"ottla-pipeline.{topic}"]).values():
            future.result(oracle.LIMIT_S)
        again = Stream(kafka.bootstrap, topic)
        assert again.sink.start() == Mark("q", 2, "run", offsets=1)
        assert again.write(2).is_replay
        again.write(3)
        assert [record.value for record in client.records(topic)] == [b"0", b"1", b"2", b"3"]
