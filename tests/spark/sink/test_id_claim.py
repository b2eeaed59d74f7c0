"""Two streams with the same transactional id, before either has committed a batch. These tests run without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla import Broker
from ottla.client.cluster import BrokerConnections
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import NO_BATCH, Mark, group_of, read_committed, read_mark
from ottla.spark.progress.resume import committed_offsets
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.id_claim import claim
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import SharedProducer, SharedTransaction, state_of
from tests.spark.sink.test_exactly_once import columns

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]

ENDS = InputEnds("", {("in", 0): 7, ("in", 1): 3})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(clock="manual") as broker:
        broker.create_topic("in", partitions=2)
        broker.create_topic("out", partitions=1)
        yield broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[BrokerConnections]:
    cluster = cluster_client(Connecting(broker.bootstrap))
    yield cluster
    cluster.close()


def claim_id(cluster: BrokerConnections, name: str, query: str, batch: int, is_new: Callable[[], bool] = lambda: False) -> None:
    in_group = read_committed(cluster, group_of(name), is_stable=False)
    claim(cluster, name, query, batch, "run", ENDS, in_group, is_new=is_new)


class Stream:
    """A stream with the checkpoint id ``query`` and the transactional id ``name``."""

    def __init__(self, cluster: BrokerConnections, name: str, query: str, timeout_ms: int = 60_000) -> None:
        self.cluster, self.name, self.query = cluster, name, query
        self.sink = ExactlyOnce(SharedTransaction(cluster, name, timeout_ms), "run")

    def start(self, batch: int = 0) -> None:
        claim_id(self.cluster, self.name, self.query, batch)
        self.sink.start()

    def tasks(self, producer: SharedProducer) -> list[Written]:
        writer = TaskWriter(self.cluster.connecting, producer)
        writer.write(columns([("out", 0, b"k", b"v")]), 1)
        return writer.finish()

    def write(self, batch: int = 0) -> None:
        self.sink.write(self.query, batch, self.tasks, ENDS)

    def leave_open(self) -> None:
        """Write without ending the transaction, as if the driver were killed during a batch."""
        self.tasks(self.sink._transaction.producer)


def test_second_stream_with_the_transactional_id_is_refused_during_the_first_batch(cluster: BrokerConnections) -> None:
    first, second = Stream(cluster, "a", "q1"), Stream(cluster, "a", "q2")
    first.start()
    first.leave_open()
    with pytest.raises(PipelineError, match=r"a transaction is open under 'a', of another checkpoint \(query q1\)"):
        second.start()
    # The second stream was refused before it could fence the first stream.
    first.write()
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        second.start()


def test_stream_killed_in_its_first_batch_continues(cluster: BrokerConnections) -> None:
    Stream(cluster, "b", "q1").start()
    killed = Stream(cluster, "b", "q1")
    killed.start()
    killed.leave_open()
    again = Stream(cluster, "b", "q1")
    again.start()
    again.write()


def test_stream_without_writes_does_not_block_other_streams(cluster: BrokerConnections, broker: Broker) -> None:
    Stream(cluster, "c", "q1").start()
    with pytest.raises(PipelineError, match="nothing was committed as 'c'"):
        committed_offsets(broker.bootstrap, "c")
    second = Stream(cluster, "c", "q2")
    second.start()
    second.write()
    assert second.sink.start() == Mark("q2", 0, "run", offsets=2)


def test_open_transaction_of_a_killed_stream_blocks_other_streams_until_its_timeout(
    cluster: BrokerConnections, broker: Broker
) -> None:
    killed = Stream(cluster, "d", "q1", timeout_ms=10_000)
    killed.start()
    killed.leave_open()
    with pytest.raises(PipelineError, match="timed out"):
        Stream(cluster, "d", "q2").start()
    broker.clock.advance("30s")
    second = Stream(cluster, "d", "q2")
    second.start()
    second.write()


def test_open_transaction_of_an_unknown_stream_blocks_a_new_stream(cluster: BrokerConnections) -> None:
    plain = Stream(cluster, "e", "q1")
    plain.sink.start()
    plain.leave_open()
    assert state_of(cluster, "e") == "Ongoing"
    with pytest.raises(PipelineError, match="of an unknown stream"):
        Stream(cluster, "e", "q2").start()
    assert state_of(cluster, "never") is None


def test_first_record_of_a_transactional_id_does_not_count_as_committed_progress(cluster: BrokerConnections) -> None:
    stream = Stream(cluster, "f", "q1")
    stream.start()
    assert stream.sink.start() == Mark("q1", NO_BATCH, "run", offsets=0)
    with pytest.raises(PipelineError, match="it is unknown which batches were committed"):
        stream.write(3)


def test_first_batch_after_skipped_batches_claims_a_new_transactional_id(cluster: BrokerConnections) -> None:
    """A claim states that nothing was committed with the id. That is certain only if the batch is new."""
    name, at = "g", Mark("q1", NO_BATCH, "run", offsets=0)
    claim_id(cluster, name, "q1", 2)
    assert read_mark(cluster, group_of(name)) is None
    claim_id(cluster, name, "q1", 2, is_new=lambda: True)
    assert read_mark(cluster, group_of(name)) == at
    claim_id(cluster, name, "q2", 2)
    assert read_mark(cluster, group_of(name)) == at
