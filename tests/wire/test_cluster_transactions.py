"""Transactions on three brokers whose leaders and coordinators fail: each transaction is visible exactly once or not at all."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

import ottla

pytestmark = [pytest.mark.wire, pytest.mark.full]

SESSION_MS = 1_500
SETTINGS = {"broker.session.timeout.ms": SESSION_MS, "broker.heartbeat.interval.ms": 200}
PARTITIONS = 6
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings=SETTINGS) as cluster:
        yield cluster
        errors = [line for line in cluster.logs if '"level": "error"' in line]
    assert not errors


@pytest.fixture
def story(shared: ottla.Cluster) -> Story:
    shared.heal()
    return Story(shared)


class Story:
    """A producer with its own topic that is replicated to all brokers. It tracks the records that must be visible."""

    def __init__(self, cluster: ottla.Cluster) -> None:
        self.cluster = cluster
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.committed: list[bytes] = []
        cluster.create_topic(self.topic, PARTITIONS, {"min.insync.replicas": "2"}, replication_factor=3)
        # A frozen broker does not respond, and a client reconnects only after this timeout.
        timeouts = {"socket.timeout.ms": 3_000}
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": self.topic, **timeouts})
        self.producer.init_transactions(PATIENCE_S)
        self._open: list[bytes] = []

    @property
    def coordinator(self) -> int:
        return self.cluster.coordinator(transactional_id=self.topic)

    def begin(self, name: str) -> None:
        """Begin a transaction and write a record to each partition. Waits until the leaders have acknowledged them."""
        self._open = []
        self.producer.begin_transaction()
        self.write(name)
        assert self.producer.flush(PATIENCE_S) == 0

    def write(self, name: str) -> None:
        for index in range(PARTITIONS):
            value = f"{name} {index}".encode()
            self.producer.produce(self.topic, value, partition=index)
            self._open.append(value)

    def commit(self) -> None:
        self.producer.commit_transaction(PATIENCE_S)
        self.committed += self._open

    def check(self) -> None:
        expected = Counter(self.committed)
        # If a partition's leader changes after the decision, its marker may be written after the response to EndTxn.
        self.cluster.wait_for(lambda: self._there() == expected, PATIENCE_S)

    def _there(self) -> Counter[bytes | None]:
        there = Counter(record.value for record in self.cluster.records(self.topic))
        assert max(there.values(), default=1) == 1, "a record was written twice"
        return there


def test_transaction_spans_partitions_of_all_brokers(story: Story) -> None:
    for number in range(6):
        story.begin(f"{number}")
        if number % 2:
            story.producer.abort_transaction(PATIENCE_S)
        else:
            story.commit()
    story.check()


def coordinator(story: Story) -> int:
    return story.coordinator


def leader(story: Story) -> int:
    """Return a broker that leads a partition and is not the coordinator."""
    leaders = {story.cluster.leader(story.topic, index) for index in range(PARTITIONS)}
    return next(n for n in sorted(n for n in leaders if n) if n != story.coordinator)


@pytest.mark.parametrize("of", [coordinator, leader])
@pytest.mark.parametrize("how", [ottla.Cluster.kill, ottla.Cluster.shut_down])
def test_open_transaction_can_be_committed_after_its_leader_or_coordinator_stops(
    story: Story, of: Callable[[Story], int], how: Callable[[ottla.Cluster, int], None]
) -> None:
    story.begin("before")
    story.commit()
    story.begin("open")
    gone = of(story)
    how(story.cluster, gone)
    story.write("without it")
    story.commit()
    story.begin("after")
    story.commit()
    story.check()
    story.cluster.restart(gone)
    story.begin("with it")
    story.commit()
    story.check()


def test_paused_coordinator_decides_no_transaction_after_its_replacement(story: Story) -> None:
    story.begin("open")
    frozen = story.coordinator
    story.cluster.pause(frozen)
    story.cluster.wait_for(lambda: story.cluster.in_service() == [n for n in (1, 2, 3) if n != frozen], PATIENCE_S)
    story.commit()
    story.cluster.resume(frozen)
    story.begin("after")
    story.commit()
    story.check()
