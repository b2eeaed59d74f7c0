"""Progress records of idle streams are renewed before a broker deletes them. These tests run without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.progress.marks import group_of, read_committed
from ottla.spark.sink.driver import DriverTransaction
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.id_claim import claim
from ottla.spark.sink.keepalive import Renewing, renewed
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import SharedTransaction, state_of
from tests.spark.sink.test_exactly_once import columns

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(clock="manual") as broker:
        yield broker


class Stream:
    """A stream with batches of one record. Its topic, which it also reads, has the name of the transactional id."""

    def __init__(self, broker: Broker, name: str, *, by_driver: bool = False) -> None:
        self.name, self.by_driver = name, by_driver
        self.cluster = cluster_client(Connecting(broker.bootstrap))
        transaction: Any = SharedTransaction(self.cluster, name)
        if by_driver:
            transaction = DriverTransaction(SinkOptions(connecting=self.cluster.connecting, transactional_id=name))
        self.sink: ExactlyOnce[Any] = ExactlyOnce(transaction, "run")

    def start(self, batch: int) -> Stream:
        claim(self.cluster, self.name, "q", batch, "run", self.ends(batch), read_committed(self.cluster, group_of(self.name)))
        self.sink.start()
        return self

    def ends(self, batch: int) -> InputEnds:
        return InputEnds("", {(self.name, 0): batch + 1})

    def write(self, batch: int) -> bool:
        """Write a batch. Returns whether it was already committed before."""
        return self.sink.write("q", batch, self.tasks, self.ends(batch)).is_replay

    def tasks(self, producer: Any) -> list[Written]:
        if self.by_driver:
            written: list[Written] = producer.write([(self.name, b"k", b"v", [], 0)], {self.name: 1})
            return written
        writer = TaskWriter(self.cluster.connecting, producer)
        writer.write(columns([(self.name, 0, b"k", b"v")]), 1)
        return writer.finish()

    def renewed(self) -> bool:
        return renewed(self.cluster, self.name, self.sink, lambda p: p.write([], {}) if self.by_driver else [])


@pytest.mark.parametrize("by_driver", [False, True], ids=["tasks", "driver"])
def test_idle_stream_keeps_its_progress_for_months(broker: Broker, by_driver: bool) -> None:
    name = f"idle-{by_driver}"
    broker.create_topic(name, partitions=1, configs={"retention.ms": "-1"})
    stream = Stream(broker, name, by_driver=by_driver).start(0)
    assert not stream.write(0)
    for _ in range(10):
        broker.clock.advance("6d")
        assert stream.renewed()
    # The stream can still write, and a restarted stream still knows the last committed batch.
    assert not stream.write(1)
    broker.clock.advance("6d")
    assert stream.renewed()
    broker.clock.advance("6d")
    again = Stream(broker, name, by_driver=by_driver).start(1)
    assert again.write(1)
    # Progress is also renewed if this run has written no batch, but found a committed batch.
    assert again.renewed()
    broker.clock.advance("6d")
    assert not Stream(broker, name, by_driver=by_driver).start(2).write(2)
    assert len(broker.records(name)) == 3


def test_progress_in_a_group_expires_without_renewal(broker: Broker) -> None:
    broker.create_topic("forgotten", partitions=1, configs={"retention.ms": "-1"})
    Stream(broker, "forgotten").start(0).write(0)
    broker.clock.advance("8d")
    with pytest.raises(PipelineError, match="it is unknown which batches were committed"):
        Stream(broker, "forgotten").start(1).write(1)


def test_fenced_stream_does_not_renew_its_progress(broker: Broker) -> None:
    """If a fenced stream renewed its progress, it could reset offsets that the other stream has committed."""
    broker.create_topic("fenced", partitions=1)
    old = Stream(broker, "fenced").start(0)
    old.write(0)
    new = Stream(broker, "fenced").start(0)
    assert not old.renewed()
    new.write(0)
    new.write(1)
    assert not old.renewed()
    in_group = read_committed(new.cluster, group_of("fenced"))
    assert in_group is not None
    assert (in_group.mark.batch, in_group.ends) == (1, {"fenced": {"0": 2}})
    assert state_of(new.cluster, "fenced") == "CompleteCommit"
    assert not new.write(2)


def test_failed_progress_renewal_is_retried(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("failed", partitions=1, configs={"retention.ms": "-1"})
    stream = Stream(broker, "failed").start(0)
    stream.write(0)
    with monkeypatch.context() as patched:

        def lose_the_answer(*arguments: Any, **named: Any) -> None:
            raise PipelineError("the broker does not answer")

        patched.setattr(SharedTransaction, "end", lose_the_answer)
        assert stream.renewed()
    # The failed renewal's transaction is open until it times out.
    assert state_of(stream.cluster, "failed") == "Ongoing"
    assert stream.renewed()
    assert not stream.sink.is_settled
    broker.clock.advance("6d")
    assert stream.renewed()
    assert stream.sink.is_settled
    broker.clock.advance("6d")
    assert not Stream(broker, "failed").start(1).write(1)


def test_fencing_found_by_a_progress_renewal_fails_the_next_batch(broker: Broker) -> None:
    broker.create_topic("met", partitions=1)
    old = Stream(broker, "met").start(0)
    old.write(0)
    new = Stream(broker, "met").start(1)
    assert not old.renewed()
    with pytest.raises(Fenced):
        old.write(1)
    assert not new.write(1)


def test_progress_renewal_omits_offsets_of_a_deleted_topic(broker: Broker) -> None:
    """The next start detects the recreated topic by its missing offsets."""
    broker.create_topic("anew", partitions=1)
    stream = Stream(broker, "anew").start(0)
    stream.write(0)
    with KafkaClient(broker.bootstrap) as cluster:
        cluster.delete_topic("anew")
        cluster.create_topic("anew", partitions=1)
    assert not stream.renewed()
    assert read_committed(stream.cluster, group_of("anew")) is None


def test_progress_is_not_renewed_before_the_first_batch(broker: Broker) -> None:
    broker.create_topic("first", partitions=1)
    stream = Stream(broker, "first").start(0)
    assert stream.renewed()
    assert state_of(stream.cluster, "first") == "Empty"


def test_progress_renewal_thread_ends_with_its_last_stream() -> None:
    calls: list[int] = []
    renewing = Renewing(lambda: calls.append(1) or len(calls) < 3, every_s=0.001)  # type: ignore[func-returns-value]
    renewing.thread.join(60)
    assert (len(calls), renewing.thread.is_alive()) == (3, False)
    begun = threading.Event()
    stopped = Renewing(lambda: begun.set() or True, every_s=0.001)  # type: ignore[func-returns-value]
    assert begun.wait(60)
    stopped.stop()
    stopped.thread.join(60)
    assert not stopped.thread.is_alive()
    never = Renewing(lambda: pytest.fail("the timeout was renewed too early"))
    never.stop()
    never.thread.join(60)
    assert not never.thread.is_alive()
