"""One transaction shared by many writers, with broker kills, fencing and retries. These tests run without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import Fenced, IdExpired, PipelineError
from ottla.spark.progress.marks import Mark
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.sink.exactly_once import ExactlyOnce, Tasks
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import SharedProducer, SharedTransaction
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]

ROWS = 3_000
PARTITIONS = 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path) as broker:
        yield broker


@pytest.fixture
def world(broker: Broker) -> Iterator[World]:
    world = World(Wire(broker), "ottla", "")
    for topic in ("out", "log"):
        perform(world, f"topic {topic} partitions={PARTITIONS}")
    yield world
    world.close()


def stream(broker: Broker, transactional_id: str = "shop") -> ExactlyOnce[SharedProducer]:
    return ExactlyOnce(SharedTransaction(cluster_client(Connecting(broker.bootstrap)), transactional_id), "run")


def ends(batch: int) -> InputEnds:
    """Return input offsets for tests that do not check them."""
    return InputEnds("", {("out", 0): batch})


def columns(placed: list[tuple[str, int, bytes, bytes]]) -> pa.RecordBatch:
    """Return rows as a task gets them from Spark: topic, partition, key, value and headers."""
    topics, partitions, keys, values = (list(column) for column in zip(*placed, strict=True))
    headers = pa.array([[{"key": "run", "value": b"r"}]] * len(placed), COLUMNS["headers"])
    arrays = [pa.array(topics), pa.array(partitions, pa.int32()), pa.array(keys), pa.array(values), headers]
    return pa.RecordBatch.from_arrays(arrays, ["topic", "partition", "key", "value", "headers"])


def tasks_of(
    broker: Broker, batch: int, *, fail: Callable[[int], None] = lambda partition: None, rows: int = ROWS
) -> Tasks[SharedProducer]:
    """Return tasks that write to one partition each, in parallel as executors do."""

    def task(producer: SharedProducer, partition: int) -> list[Written]:
        writer = TaskWriter(Connecting(broker.bootstrap), producer)
        for part in (range(rows // 2), range(rows // 2, rows)):
            placed = [
                (topic, partition, b"k%d" % n, b"b%d-%d-%d" % (batch, partition, n)) for n in part for topic in ("out", "log")
            ]
            writer.write(columns(placed), 1)
            if part.start == 0:
                fail(partition)
        return writer.finish()

    def tasks(producer: SharedProducer) -> list[Written]:
        with ThreadPoolExecutor(PARTITIONS) as pool:
            return [w for written_by_task in pool.map(lambda p: task(producer, p), range(PARTITIONS)) for w in written_by_task]

    return tasks


def count(world: World, topic: str) -> list[int]:
    """Return the number of committed records in each partition."""
    counts = []
    for partition in range(PARTITIONS):
        said = perform(world, f"read {topic}/{partition}")
        counts.append(0 if said == "nothing" else len(said.split()))
    return counts


def test_sink_writes_a_batch_atomically_and_once(broker: Broker, world: World) -> None:
    sink = stream(broker)
    assert sink.start() is None
    for batch in range(3):
        report = sink.write("q", batch, tasks_of(broker, batch), ends(batch))
        assert (report.records, report.is_replay) == (2 * PARTITIONS * ROWS, False)
    assert sink.write("q", 2, tasks_of(broker, 2), ends(2)).is_replay
    again = stream(broker)
    assert again.start() == Mark("q", 2, "run", offsets=1)
    assert again.write("q", 2, tasks_of(broker, 2), ends(2)).is_replay
    assert again.write("q", 3, tasks_of(broker, 3), ends(3)).records == 2 * PARTITIONS * ROWS
    for topic in ("out", "log"):
        assert count(world, topic) == [4 * ROWS] * PARTITIONS


def test_failed_sink_task_aborts_the_whole_batch(broker: Broker, world: World) -> None:
    sink = stream(broker)
    sink.start()

    def fail(partition: int) -> None:
        if partition == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.write("q", 0, tasks_of(broker, 0, fail=fail), ends(0))
    assert count(world, "out") == [0] * PARTITIONS
    sink.write("q", 0, tasks_of(broker, 0), ends(0))
    assert count(world, "out") == [ROWS] * PARTITIONS


def test_fenced_stream_stops_and_leaves_no_records(broker: Broker, world: World) -> None:
    first, second = stream(broker), stream(broker)
    first.start()
    first.write("q", 0, tasks_of(broker, 0), ends(0))
    with pytest.raises(Fenced, match="another pipeline uses 'shop'"):
        first.write("q", 1, tasks_of(broker, 1, fail=lambda partition: second.start() if partition == 0 else None), ends(1))
    assert not first.is_settled
    second.write("q", 1, tasks_of(broker, 1), ends(1))
    assert count(world, "out") == [2 * ROWS] * PARTITIONS


def test_sink_task_of_an_ended_transaction_writes_no_records(broker: Broker, world: World) -> None:
    sink = stream(broker)
    sink.start()
    zombie: list[TaskWriter] = []

    def tasks(producer: SharedProducer) -> list[Written]:
        zombie.append(TaskWriter(Connecting(broker.bootstrap), producer))
        zombie[0].sender.leader("out", 0)
        return tasks_of(broker, 0)(producer)

    sink.write("q", 0, tasks, ends(0))
    with pytest.raises(Fenced):
        zombie[0].write(columns([("out", 0, b"k", b"zombie")]), 1)
        zombie[0].finish()
    sink.write("q", 1, tasks_of(broker, 1), ends(1))
    assert count(world, "out") == [2 * ROWS] * PARTITIONS


STATES = ("before a record", "in the middle", "before the mark", "before the end", "while it ends", "after the end")


@pytest.mark.parametrize("at", STATES)
def test_broker_kill_during_sink_batches_loses_and_duplicates_no_records(
    broker: Broker, world: World, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = stream(broker)
    sink.start()
    sink.write("q", 0, tasks_of(broker, 0), ends(0))
    mark, end = SharedTransaction.mark, SharedTransaction.end

    def kill(when: str) -> None:
        if at == when:
            broker.restart(kill=True)

    def tasks(producer: SharedProducer) -> list[Written]:
        kill("before a record")
        written = tasks_of(broker, 1, fail=lambda partition: kill("in the middle") if partition == 0 else None)(producer)
        kill("before the mark")
        return written

    def marked(self: SharedTransaction, batch_mark: Mark, ends: Mapping[tuple[str, int], int]) -> None:
        mark(self, batch_mark, ends)
        kill("before the end")

    def ended(self: SharedTransaction, *, commit: bool) -> None:
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(kill, "while it ends")
            end(self, commit=commit)
            killing.result()
        kill("after the end")

    monkeypatch.setattr(SharedTransaction, "mark", marked)
    monkeypatch.setattr(SharedTransaction, "end", ended)
    assert sink.write("q", 1, tasks, ends(1)).records == 2 * PARTITIONS * ROWS
    monkeypatch.undo()
    assert sink.write("q", 2, tasks_of(broker, 2, rows=10), ends(2)).records == 2 * PARTITIONS * 10
    world.forget_connection()
    for topic in ("out", "log"):
        assert count(world, topic) == [2 * ROWS + 10] * PARTITIONS
        for partition in range(PARTITIONS):
            assert len(set(perform(world, f"read {topic}/{partition}").split())) == 2 * ROWS + 10
    again = stream(broker)
    assert again.start() == Mark("q", 2, "run", offsets=1)


def test_consumer_group_tools_show_the_input_offsets_of_a_pipeline(broker: Broker, world: World) -> None:
    """The end offsets of a batch's input are committed in the group `ottla-pipeline.ID`, in the batch's transaction."""
    perform(world, "topic in partitions=2")
    with KafkaClient(broker.bootstrap) as cluster:
        cluster.produce("in", [NewRecord(b"v", partition=n % 2) for n in range(10)])
    sink = stream(broker)
    sink.start()
    sink.write("q", 0, tasks_of(broker, 0, rows=10), InputEnds("x", {("in", 0): 5, ("in", 1): 2}))
    assert broker.lag("ottla-pipeline.shop") == {("in", 0): 0, ("in", 1): 3}
    assert stream(broker).start() == Mark("q", 0, "run", "x", offsets=2)


def test_lost_progress_record_stops_the_stream(broker: Broker, world: World) -> None:
    """The group was deleted or has expired, so it is unknown which batches were committed."""
    sink = stream(broker)
    sink.start()
    sink.write("q", 0, tasks_of(broker, 0, rows=10), ends(0))
    perform(world, "delete_group ottla-pipeline.shop")
    again = stream(broker)
    assert again.start() is None
    with pytest.raises(PipelineError, match="it is unknown which batches were committed"):
        again.write("q", 1, tasks_of(broker, 1, rows=10), ends(1))
    assert count(world, "out") == [10] * PARTITIONS


def test_empty_spark_batch_commits_its_progress_record(broker: Broker, world: World) -> None:
    sink = stream(broker)
    sink.start()

    def nothing(producer: SharedProducer) -> list[Written]:
        writer = TaskWriter(Connecting(broker.bootstrap), producer)
        writer.write(columns([("out", 0, b"k", b"v")]).slice(0, 0), 1)
        return writer.finish()

    assert sink.write("q", 0, nothing, ends(0)).records == 0
    assert stream(broker).start() == Mark("q", 0, "run", offsets=1)


def test_sink_initializes_an_expired_transactional_id_again() -> None:
    with Broker(clock="manual") as broker:
        for topic in ("out", "log"):
            broker.create_topic(topic, partitions=PARTITIONS, configs={"retention.ms": "-1"})
        sink = stream(broker)
        sink.start()
        sink.write("q", 0, tasks_of(broker, 0, rows=10), ends(0))
        broker.clock.advance("8d")
        with pytest.raises(IdExpired):
            sink.write("q", 1, tasks_of(broker, 1, rows=10), ends(1))
        assert sink.write("q", 1, tasks_of(broker, 1, rows=10), ends(1)).records == 2 * PARTITIONS * 10
        # Another producer owns the transactional id by now, and must not be fenced.
        broker.clock.advance("8d")
        second = SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "shop")
        second.begin()
        with pytest.raises(Fenced):
            sink.write("q", 2, tasks_of(broker, 2, rows=10), ends(2))
        second.end(commit=False)


def test_errors_of_the_sink_name_cause_and_remedy(broker: Broker, world: World) -> None:
    with pytest.raises(PipelineError, match="unknown topic 'nowhere'"):
        TaskWriter(Connecting(broker.bootstrap), SharedProducer("x", 1, 0)).sender.leader("nowhere", 0)
    with pytest.raises(PipelineError, match="'here' is not HOST:PORT"):
        cluster_client(Connecting("here"))
    quick = cluster_client(Connecting("127.0.0.1:1"), timeout_s=0.2)
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1 does not answer"):
        SharedTransaction(quick, "x").begin()
    with pytest.raises(PipelineError, match=r"transaction\.max\.timeout\.ms"):
        SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "x", timeout_ms=1 << 30).begin()
    sink = stream(broker)
    sink.start()
    sink.write("q", 0, tasks_of(broker, 0, rows=10), ends(0))
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        other = stream(broker)
        other.start()
        other.write("another", 1, tasks_of(broker, 1), ends(1))
    big = stream(broker, "big")
    big.start()

    def too_large(producer: SharedProducer) -> list[Written]:
        writer = TaskWriter(Connecting(broker.bootstrap), producer, "none")
        writer.write(columns([("out", 0, b"k", b"v" * 2_000_000)]), 1)
        return writer.finish()

    with pytest.raises(PipelineError, match=r"a record of 2,000,\d\d\d bytes is larger than topic 'out' allows"):
        big.write("q", 0, too_large, ends(0))
    perform(world, "feature transaction.version=1 kind=2")
    with pytest.raises(PipelineError, match="writer=driver"):
        stream(broker).start()


def test_failed_abort_of_a_sink_batch_loses_and_duplicates_no_records(
    broker: Broker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is still open and has used sequence numbers: other records with them would be dropped as duplicates."""
    sink = stream(broker)
    sink.start()
    end = SharedTransaction.end

    def ended(self: SharedTransaction, *, commit: bool) -> None:
        if not commit:
            raise PipelineError("aborting: no broker answers")
        end(self, commit=commit)

    def fail(partition: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SharedTransaction, "end", ended)
    with pytest.raises(PipelineError, match="no broker answers"):
        sink.write("q", 0, tasks_of(broker, 0, fail=fail), ends(0))
    assert not sink.is_settled
    sink.start()
    sink.write("q", 0, tasks_of(broker, 7), ends(0))
    for partition in range(PARTITIONS):
        values = perform(world, f"read out/{partition}").split()
        assert len(set(values)) == len(values) == ROWS
        assert all("b7-" in value for value in values)
