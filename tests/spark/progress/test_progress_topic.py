"""The progress topic keeps progress that the group has lost. These tests run without Spark."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.progress import progress_topic
from ottla.spark.progress.marks import Ends, Mark
from ottla.spark.progress.progress_topic import ProgressTopic, last_mark
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.sink.driver import DriverTransaction
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.options import SinkOptions, parse_options
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import SharedTransaction
from tests.support import oracle
from tests.support.shared_kafka import shared_kafka

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]

TOPIC = "progress"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(clock="manual") as broker:
        yield broker


class Stream:
    """A stream with batches of one record, written by tasks or by the driver. ``name`` is its transactional id and its topic."""

    def __init__(self, bootstrap: str, name: str, by_driver: bool = False) -> None:
        self.cluster = cluster_client(Connecting(bootstrap))
        self.progress = ProgressTopic(self.cluster, TOPIC, name)
        self.progress.open()
        self.name, self._by_driver = name, by_driver
        options = SinkOptions(connecting=self.cluster.connecting, transactional_id=name)
        self.transaction: Any = SharedTransaction(self.cluster, name, progress=self.progress)
        if by_driver:
            self.transaction = DriverTransaction(options, self.progress)
        self.sink: ExactlyOnce[Any] = ExactlyOnce(self.transaction, "run")

    def write(self, batch: int, *, fail: bool = False) -> Any:
        def tasks(producer: Any) -> list[Written]:
            value = b"%d" % batch
            if self._by_driver:
                written: list[Written] = producer.write([(self.name, b"k", value, [], 0)], {self.name: 1})
            else:
                writer = TaskWriter(self.cluster.connecting, producer)
                columns = [pa.array([self.name]), pa.array([0], pa.int32()), pa.array([b"k"]), pa.array([value])]
                names = ["topic", "partition", "key", "value", "headers"]
                writer.write(
                    pa.RecordBatch.from_arrays([*columns, pa.nulls(1, COLUMNS["headers"])], names), time.time_ns() // 1_000_000
                )
                written = writer.finish()
            if fail:
                raise ZeroDivisionError
            return written

        return self.sink.write("q", batch, tasks, InputEnds("", {(self.name, 0): batch + 1}))


def kept(stream: Stream) -> tuple[Mark, Ends] | None:
    """Return the newest progress record without topic ids, which differ between runs."""
    last = stream.progress.read()
    return None if last is None else (last.mark, last.ends)


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


@pytest.mark.parametrize("by_driver", [False, True], ids=["tasks", "driver"])
def test_stream_with_a_progress_topic_continues_after_its_group_is_deleted(broker: Broker, by_driver: bool) -> None:
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
    assert last_mark(again.cluster, name, again.progress) == Mark("q", 2, "run", offsets=1)
    again.write(3)
    assert values(broker, name) == [b"0", b"1", b"2", b"3"]
    assert kept(again) == (Mark("q", 3, "run", offsets=1), {name: {"0": 4}})


def test_progress_in_a_topic_survives_expiry_of_offsets_and_transactional_ids(broker: Broker) -> None:
    broker.create_topic("slow", partitions=1, configs={"retention.ms": "-1"})
    stream = Stream(broker.bootstrap, "slow")
    stream.sink.start()
    stream.write(0)
    broker.clock.advance("30d")
    assert last_mark(stream.cluster, "slow", None) is None
    with pytest.raises(PipelineError, match="nothing was committed as 'slow'"):
        ottla.spark.committed_offsets(broker.bootstrap, "slow", None)
    assert ottla.spark.committed_offsets(broker.bootstrap, "slow", TOPIC) == '{"slow": {"0": 1}}'
    again = Stream(broker.bootstrap, "slow")
    again.sink.start()
    assert again.write(0).is_replay
    again.write(1)
    assert values(broker, "slow") == [b"0", b"1"]


def test_progress_topic_partition_is_fetched_once_per_stream_start(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is initialized between two reads of the progress topic. The second read fetches only the records written since the
    first."""
    broker.create_topic("once", partitions=1)
    stream = Stream(broker.bootstrap, "once")
    stream.sink.start()
    stream.write(0)
    fetched_from: list[tuple[int, int]] = []
    fetch = progress_topic.fetched

    def fetched(cluster: Any, topic: str, partition: int, at: int, end: int) -> Any:
        fetched_from.append((at, end))
        return fetch(cluster, topic, partition, at, end)

    monkeypatch.setattr(progress_topic, "fetched", fetched)
    again = Stream(broker.bootstrap, "once")
    assert kept(again) == (Mark("q", 0, "run", offsets=1), {"once": {"0": 1}})
    assert again.sink.start() == Mark("q", 0, "run", offsets=1)
    (start, end), (then, same_end) = fetched_from
    assert (start < end, then, same_end) == (True, end, end)
    again.progress.open()
    again.progress.read()
    assert fetched_from[2:] == [(start, end)]


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
def test_progress_topic_read_includes_a_transaction_that_ended_since_the_previous_read(broker: Broker, is_committed: bool) -> None:
    name = f"between-{is_committed}"
    broker.create_topic(name, partitions=1)
    older = Stream(broker.bootstrap, name)
    older.sink.start()
    older.write(0)
    again = Stream(broker.bootstrap, name)
    seen: list[tuple[Mark, Ends] | None] = []
    end_transaction = older.transaction.end

    def end(*, commit: bool) -> None:
        seen.append(kept(again))
        end_transaction(commit=commit and is_committed)

    older.transaction.end = end
    older.write(1)
    first = (Mark("q", 0, "run", offsets=1), {name: {"0": 1}})
    assert seen == [first]
    assert again.sink.start() == Mark("q", int(is_committed), "run", offsets=1)
    assert kept(again) == ((Mark("q", 1, "run", offsets=1), {name: {"0": 2}}) if is_committed else first)


def test_progress_record_is_part_of_the_batch_transaction(broker: Broker) -> None:
    """A progress record of an open or aborted transaction is not used, and does not hide another stream's record."""
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
    assert ProgressTopic(stream.cluster, TOPIC, "nobody").read() is None


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_progress_topic_without_compaction_is_refused(broker: Broker, policy: str) -> None:
    name = f"fleeting-{len(policy)}"
    broker.create_topic(name, partitions=1, configs={"cleanup.policy": policy})
    with pytest.raises(PipelineError, match=rf"'{name}' \(progress\.topic\) has cleanup\.policy={policy}, which would delete"):
        ProgressTopic(cluster_client(Connecting(broker.bootstrap)), name, "me").open()


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("text", NewRecord(b"no progress", key=b"me")),
        ("json", NewRecord(b'{"query": "q"}', key=b"another")),
        ("tombstone", NewRecord(None, key=b"me")),
    ],
)
def test_progress_topic_with_other_records_is_refused(broker: Broker, name: str, record: NewRecord) -> None:
    """Records with any key are refused: otherwise every start would read a foreign changelog completely."""
    topic = f"theirs-{name}"
    broker.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    with KafkaClient(broker.bootstrap) as client:
        client.produce(topic, [record])
    progress = ProgressTopic(cluster_client(Connecting(broker.bootstrap)), topic, "me")
    progress.open()
    with pytest.raises(PipelineError, match=rf"'{topic}' \(progress\.topic\) is used for something else: the batch at offset 0"):
        progress.read()


def test_progress_tombstone_of_another_stream_is_ignored(broker: Broker) -> None:
    """An operator deletes a retired stream's record with a tombstone. The stream's own tombstone could cause a duplicate batch."""
    broker.create_topic("retired", partitions=1, configs={"cleanup.policy": "compact"})
    with KafkaClient(broker.bootstrap) as client:
        client.produce("retired", [NewRecord(None, key=b"another")])
    progress = ProgressTopic(cluster_client(Connecting(broker.bootstrap)), "retired", "me")
    progress.open()
    assert progress.read() is None


def test_failed_creation_of_the_progress_topic_is_reported_with_a_remedy(broker: Broker) -> None:
    with pytest.raises(PipelineError, match=r"'no/name' does not exist, and cannot be created .* with progress\.topic=none"):
        ProgressTopic(cluster_client(Connecting(broker.bootstrap)), "no/name", "me").open()


def test_streams_and_write_once_dataframes_cannot_share_a_transactional_id(broker: Broker) -> None:
    """A stream and a frame with the same id would fence each other. A frame's name may even contain another id's key."""
    broker.create_topic("shared", partitions=1)
    stream = Stream(broker.bootstrap, "shared")
    stream.sink.start()
    stream.write(0)
    with pytest.raises(PipelineError, match="a stream uses 'shared': give write_once"):
        ProgressTopic(stream.cluster, TOPIC, "shared", frames="day").read()
    for transactional_id, name in (("framed", "day"), ("framed", 'day"]'), ('fra"med', "day")):
        frames = ProgressTopic(stream.cluster, TOPIC, transactional_id, frames=name)
        assert frames.read() is None
        sink: ExactlyOnce[Any] = ExactlyOnce(SharedTransaction(stream.cluster, transactional_id, progress=frames), "run")
        sink.start()
        assert not sink.write(name, 0, lambda producer: [], InputEnds()).is_replay
        again: ExactlyOnce[Any] = ExactlyOnce(SharedTransaction(stream.cluster, transactional_id, progress=frames), "run")
        assert again.start() == Mark(name, 0, "run", offsets=0)
    with pytest.raises(PipelineError, match="write_once has used 'framed': give the stream"):
        ProgressTopic(stream.cluster, TOPIC, "framed").read()


def test_stream_continues_in_the_progress_topic_from_progress_in_the_group(broker: Broker) -> None:
    """Before this run, an older version or another configuration ran the stream without a progress topic."""
    broker.create_topic("older", partitions=1)
    older = Stream(broker.bootstrap, "older")
    plain: ExactlyOnce[Any] = ExactlyOnce(SharedTransaction(older.cluster, "older"), "run")
    older.sink = plain
    older.sink.start()
    older.write(0)
    older.write(1)
    newer = Stream(broker.bootstrap, "older")
    newer.sink.start()
    assert newer.write(1).is_replay
    newer.write(2)
    assert kept(newer) == (Mark("q", 2, "run", offsets=1), {"older": {"0": 3}})
    # The group may also have newer progress than the topic.
    older.sink = ExactlyOnce(SharedTransaction(older.cluster, "older"), "run")
    older.sink.start()
    older.write(3)
    last = Stream(broker.bootstrap, "older")
    last.sink.start()
    assert last.write(3).is_replay
    last.write(4)
    assert values(broker, "older") == [b"%d" % batch for batch in range(5)]


def test_progress_topic_option_is_parsed(broker: Broker) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": "x", "topic": "t"}
    assert parse_options(options).progress_topic == "ottla-progress"
    assert parse_options(options | {"progress.topic": "none"}).progress_topic is None
    assert parse_options(options | {"mark.log.topic": "of-before"}).progress_topic == "of-before"
    with pytest.raises(PipelineError, match=r"'mark\.log\.topic' and 'progress\.topic' are the same option"):
        parse_options(options | {"mark.log.topic": "a", "progress.topic": "a"})
    with pytest.raises(PipelineError, match=r"option 'progress\.topic' is a topic that rows are written to"):
        parse_options(options | {"progress.topic": "t"})


@pytest.mark.full
@pytest.mark.java
def test_progress_topic_keeps_progress_on_apache_kafka() -> None:
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
