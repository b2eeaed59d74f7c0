"""Leaders and coordinators fail during a transaction of each of the four stock clients (failures 5 to 7 of `test_stories`).

Each test ends with the same check: read-committed consumers see every acknowledged transaction once and nothing else, and the last
stable offset reaches the end of every partition. With ``ORACLE=1`` three Apache Kafka brokers are tested, without the tests that
need a fault inside the broker.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ottla
from ottla.client.errors import ClientError
from ottla.testing.cluster_queries import Questions
from tests.support import oracle
from tests.wire.clients import Client, WireProducer
from tests.wire.proxy import Proxy
from tools.kafka import Unavailable
from tools.kafka_cluster import ApacheKafkas, SeveralBrokers

pytestmark = [pytest.mark.wire, pytest.mark.full]

IS_ORACLE = bool(os.environ.get("ORACLE"))
PARTITIONS = 3
SETTINGS = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 200,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "min.insync.replicas": 2,
}
POINTS = ("before-prepare", "after-prepare", "between-markers", "before-complete")

Closing = Callable[[Any], Any]


class Ground(NamedTuple):
    """Three brokers, with functions that cut off a broker from the others' requests, and reconnect it."""

    cluster: SeveralBrokers
    cut_off: Callable[[int], None]
    heal: Callable[[], None]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    if IS_ORACLE:
        yield from _kafkas(tmp_path_factory.mktemp("kafkas"))
        return
    with ottla.Cluster(3, settings=SETTINGS) as cluster:
        yield Ground(cluster, cluster.partition, cluster.heal)
        errors = [line for line in cluster.logs if '"level": "error"' in line]
    assert not errors


def _kafkas(directory: Path) -> Iterator[Ground]:
    """Start Apache Kafka brokers that advertise the addresses of proxies."""
    proxies = {broker: Proxy() for broker in (1, 2, 3)}
    advertised = {broker: {"advertised.listeners": f"PLAINTEXT://{proxy.address}"} for broker, proxy in proxies.items()}
    kafkas = ApacheKafkas(directory, settings=SETTINGS, settings_of=advertised)
    for broker, proxy in proxies.items():
        proxy.stand_before(kafkas.address(broker))

    def heal() -> None:
        for proxy in proxies.values():
            proxy.mend()
        kafkas.heal()

    try:
        with kafkas:
            yield Ground(kafkas, lambda broker: proxies[broker].break_off(), heal)
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    finally:
        for proxy in proxies.values():
            proxy.close()


@pytest.fixture
def story(ground: Ground, client: Client, closing: Closing) -> Story:
    ground.heal()
    return Story(ground, client, closing)


class Story:
    """A transactional producer of one client library, with its own topic that is replicated to all brokers."""

    def __init__(self, ground: Ground, client: Client, closing: Closing) -> None:
        self.ground = ground
        self.cluster = cluster = ground.cluster
        self.client = client
        self.closing = closing
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.committed: list[bytes] = []
        self.unknown: list[list[bytes]] = []
        """Records of transactions whose outcome the client did not learn."""
        self._open: list[bytes] = []
        self._questions = Questions(lambda: cluster.bootstrap)
        cluster.create_topic(self.topic, PARTITIONS, replication_factor=3)
        for partition in range(PARTITIONS):
            oracle.in_sync(cluster, self.topic, [1, 2, 3], partition)
        self.producer = self.new_producer()

    @property
    def coordinator(self) -> int:
        return self.cluster.coordinator(transactional_id=self.topic)

    def new_producer(self) -> WireProducer:
        """Return a producer that has initialized the transactional id, which fences the previous producer."""
        # kafka-python fails if the first bootstrap broker is paused, so only running brokers are listed.
        bootstrap = ",".join(map(self.cluster.address, self.cluster.in_service()))
        producer: WireProducer = self.closing(
            self.client.producer(bootstrap, transactional_id=self.topic, request_timeout_ms=3_000)
        )
        producer.init()
        return producer

    def begin(self, name: str) -> None:
        """Begin a transaction and write a record to each partition. Waits until all of them are acknowledged."""
        try:
            self._begin(name)
        except Exception:
            # kafka-python may fail here as in `commit`. The next producer aborts the open transaction, so no reader may see it.
            if self.client.name != "kafka-python":
                raise
            self.producer = self.new_producer()
            self._begin(name)

    def _begin(self, name: str) -> None:
        self._open = []
        self.producer.begin()
        self.write(name)
        self.producer.flush()

    def write(self, name: str) -> None:
        for index in range(PARTITIONS):
            value = f"{name} {index}".encode()
            self.producer.send(self.topic, value, partition=index)
            self._open.append(value)

    def commit(self) -> None:
        try:
            self.producer.commit()
        except Exception:
            # kafka-python 3.0 gives up on a commit without a response, and hangs if a coordinator refuses its connection. An
            # application would restart the producer.
            if self.client.name != "kafka-python":
                raise
            self.unknown.append(self._open)
            self.producer = self.new_producer()
        else:
            self.committed += self._open

    def leader_elsewhere(self, former: int) -> None:
        oracle.led_by(self.cluster, self.topic, [broker for broker in self.cluster.brokers if broker != former])

    def wait_until_out(self, broker: int) -> None:
        oracle.in_service(self.cluster, [other for other in self.cluster.brokers if other != broker])

    def check(self) -> None:
        """Check that read-committed consumers see all committed records, and a final record that no open transaction blocks."""
        self.ground.heal()
        last = self.closing(self.client.producer(self.cluster.bootstrap))
        for index in range(PARTITIONS):
            last.send(self.topic, b"last %d" % index, partition=index)
            self.committed.append(b"last %d" % index)
        last.flush()
        expected = Counter(self.committed)
        self._wait_until("all committed records are readable", lambda: expected - self._there(), lambda missing: not missing)
        beside = self._there() - expected
        for records in self.unknown:
            if records[0] in beside:
                beside -= Counter(records)
        assert not beside, "a transaction without an acknowledged commit is partly visible"
        assert not expected - self._there()

    def _wait_until(self, condition: str, look: Callable[[], Any], holds: Callable[[Any], bool]) -> None:
        oracle.wait_for(condition, look, holds, at=self.cluster.bootstrap, not_yet=ClientError)

    def is_there(self, value: str) -> bool:
        return value.encode() in self._there()

    def _there(self) -> Counter[bytes | None]:
        there = Counter(record.value for record in self._questions.records(self.topic))
        assert max(there.values(), default=1) == 1, "a record was written twice"
        return there


def test_leader_killed_with_an_open_transaction_loses_no_records(story: Story) -> None:
    story.begin("before")
    leader = story.cluster.leader(story.topic)
    assert leader is not None
    story.cluster.kill(leader)
    story.write("after")
    story.commit()
    story.begin("aborted")
    story.producer.abort()
    story.check()


def test_coordinator_killed_before_the_decision_loses_no_transaction(story: Story) -> None:
    story.begin("open")
    story.cluster.kill(story.coordinator)
    story.commit()
    story.begin("next")
    story.commit()
    story.check()


@pytest.mark.parametrize("after_ms", [1, 4])
def test_coordinator_killed_at_a_random_time_of_the_commit_loses_no_transaction(story: Story, after_ms: int) -> None:
    """The kill happens before the decision, between the decision and the markers, or between two markers."""
    story.begin("open")
    coordinator = story.coordinator
    killing = threading.Timer(after_ms / 1_000, story.cluster.kill, (coordinator,))
    killing.start()
    story.commit()
    killing.join()
    story.begin("next")
    story.commit()
    story.check()


@pytest.mark.skipif(IS_ORACLE, reason="Apache Kafka has no faults on demand")
@pytest.mark.parametrize("point", POINTS)
def test_coordinator_killed_at_each_point_of_the_commit_loses_no_transaction(story: Story, point: str) -> None:
    assert isinstance(story.cluster, ottla.Cluster)
    story.begin("open")
    coordinator = story.coordinator
    story.cluster.faults(coordinator).add(kill=point, transactional_id=story.topic)
    story.commit()
    story.wait_until_out(coordinator)
    story.begin("next")
    story.commit()
    story.check()


def test_group_coordinator_killed_with_pending_offsets_loses_no_transaction(story: Story) -> None:
    group = f"g-{story.topic}"
    consumer = story.closing(story.client.consumer(story.cluster.bootstrap, [story.topic], group=group))
    oracle.wait_for("the member has all partitions", lambda: consumer.poll(0.1) or len(consumer.assignment()) == PARTITIONS)
    story.begin("with offsets")
    story.producer.send_offsets(consumer, {(story.topic, 0): 7})
    story.cluster.kill(story.cluster.coordinator(group=group))
    story.commit()
    story.cluster.heal()

    def committed() -> int | None:
        consumer.poll(0.1)
        offset: int | None = consumer.committed(story.topic, 0)
        return offset

    if story.unknown:
        story.check()
        assert story.is_there("with offsets 0") == (committed() == 7), "the offset and the records are committed together"
    else:
        oracle.wait_for("offset 7 is committed", committed, (7).__eq__)
        story.check()


def test_leader_paused_beyond_its_session_timeout_is_fenced(story: Story) -> None:
    story.begin("open")
    zombie = story.cluster.leader(story.topic)
    assert zombie is not None
    story.cluster.pause(zombie)
    story.leader_elsewhere(zombie)
    story.commit()
    story.cluster.resume(zombie)
    story.begin("next")
    story.commit()
    story.check()


def test_coordinator_paused_beyond_its_session_timeout_decides_no_transaction(story: Story) -> None:
    story.begin("open")
    zombie = story.coordinator
    story.cluster.pause(zombie)
    story.wait_until_out(zombie)
    taker = story.new_producer()
    story.cluster.resume(zombie)
    with pytest.raises(Exception):  # noqa: B017 - each library has its own word for it
        story.producer.commit()
    story.producer = taker
    story.begin("of the taker")
    story.commit()
    story.check()


def test_leader_isolated_from_other_brokers_loses_no_transaction(story: Story) -> None:
    """An asymmetric network partition: neither markers nor followers reach the leader. Nothing uncommitted is read."""
    leaders = [story.cluster.leader(story.topic, index) for index in range(PARTITIONS)]
    cut_off = next(broker for broker in leaders if broker is not None and broker != story.coordinator)
    story.begin("open")
    story.ground.cut_off(cut_off)
    story.commit()
    story.ground.heal()
    story.begin("next")
    story.commit()
    story.check()
