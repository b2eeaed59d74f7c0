"""Stock clients with three brokers and a controller, each in its own process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer

import ottla
from ottla.cli import main
from ottla.testing.cluster_handle import CONTROLLER, ClusterFailed

pytestmark = [pytest.mark.wire]

SESSION_MS = 1_500
SETTINGS = {
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": 200,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings=SETTINGS) as cluster:
        yield cluster
        errors = [line for line in cluster.logs if '"level": "error"' in line]
        pids = [cluster.pid(node) for node in (CONTROLLER, *cluster.brokers)]
    assert not errors
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            raise AssertionError(f"process {pid} still runs")


@pytest.fixture
def cluster(shared: ottla.Cluster) -> ottla.Cluster:
    """The shared cluster, with all brokers restored after the previous test."""
    shared.heal()
    return shared


@pytest.fixture
def topic(cluster: ottla.Cluster) -> str:
    """A topic with one partition on each broker."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 3, replication_factor=1)
    return name


def leaders(cluster: ottla.Cluster, topic: str) -> list[int | None]:
    return [cluster.leader(topic, index) for index in range(3)]


def produce(cluster: ottla.Cluster, topic: str, *values: str, partition: int = 0) -> None:
    failures = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def values(cluster: ottla.Cluster, topic: str) -> list[bytes | None]:
    return sorted(record.value for record in cluster.records(topic))  # type: ignore[type-var]


def test_cluster_spreads_partitions_and_their_leaders_serve_clients(cluster: ottla.Cluster, topic: str) -> None:
    assert sorted(n or 0 for n in leaders(cluster, topic)) == [1, 2, 3]
    for index in range(3):
        produce(cluster, topic, f"{index}a", f"{index}b", partition=index)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    consumed: list[bytes] = []
    while len(consumed) < 6:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        consumed.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert sorted(consumed) == [b"0a", b"0b", b"1a", b"1b", b"2a", b"2b"]
    assert cluster.lag(topic) == {(topic, index): 0 for index in range(3)}
    assert cluster.coordinator(group=topic) in cluster.brokers


def test_killed_broker_of_a_cluster_restarts_with_its_records(cluster: ottla.Cluster, topic: str) -> None:
    produce(cluster, topic, "before")
    leader = cluster.leader(topic)
    assert leader is not None
    cluster.kill(leader)
    cluster.wait_for(lambda: cluster.leader(topic) is None, PATIENCE_S)
    cluster.restart(leader)
    cluster.wait_for(lambda: cluster.leader(topic) == leader, PATIENCE_S)
    produce(cluster, topic, "after")
    assert values(cluster, topic) == [b"after", b"before"]


def test_broker_paused_beyond_its_session_timeout_leads_its_partition_again(cluster: ottla.Cluster, topic: str) -> None:
    produce(cluster, topic, "before")
    leader = cluster.leader(topic)
    assert leader is not None
    cluster.pause(leader)
    cluster.wait_for(lambda: leader not in leaders(cluster, topic), PATIENCE_S)
    cluster.resume(leader)
    cluster.wait_for(lambda: cluster.leader(topic) == leader, PATIENCE_S)
    produce(cluster, topic, "after")
    assert values(cluster, topic) == [b"after", b"before"]


def test_brokers_serve_clients_while_their_controller_is_down(cluster: ottla.Cluster, topic: str) -> None:
    cluster.kill(CONTROLLER)
    produce(cluster, topic, "without")
    cluster.restart(CONTROLLER)
    later = f"{topic}-later"
    cluster.create_topic(later, 3, replication_factor=1)
    produce(cluster, later, "with")
    assert values(cluster, topic) + values(cluster, later) == [b"without", b"with"]


def replicated(cluster: ottla.Cluster) -> str:
    """Create a topic with one partition that is replicated to all brokers."""
    name = f"r-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 1, {"min.insync.replicas": "2"}, replication_factor=3)
    return name


def test_topic_elect_command_moves_a_partition_leader(cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    topic = replicated(cluster)
    first = cluster.leader(topic)
    assert first is not None
    second = first % 3 + 1
    elect = ["topic", "elect", f"{topic}:0", "--bootstrap", cluster.bootstrap]
    assert main([*elect, "--to", str(second)]) == 0
    assert capsys.readouterr().out == f"broker {second} leads {topic}:0\n" and cluster.leader(topic) == second
    assert main([*elect, "--to", "7"]) == 2
    assert "broker 7 has no replica of the partition" in capsys.readouterr().err
    assert main([*elect, "--to", str(first), "--unclean"]) == 2


@pytest.mark.smoke
def test_acknowledged_records_survive_a_kill_of_the_leader(cluster: ottla.Cluster) -> None:
    topic = replicated(cluster)
    first = cluster.leader(topic)
    assert first is not None
    produce(cluster, topic, "1 with all")
    cluster.kill(first)
    cluster.wait_for(lambda: cluster.leader(topic) not in (None, first), PATIENCE_S)
    produce(cluster, topic, "2 without it")
    assert values(cluster, topic) == [b"1 with all", b"2 without it"]
    cluster.restart(first)
    cluster.wait_for(lambda: cluster.in_sync(topic) == [1, 2, 3], PATIENCE_S)
    cluster.move_leader(topic, 0, to=first)
    produce(cluster, topic, "3 as before")
    assert values(cluster, topic) == [b"1 with all", b"2 without it", b"3 as before"]


def test_stopping_broker_transfers_its_partition_leaderships_first(cluster: ottla.Cluster) -> None:
    topic = replicated(cluster)
    first = cluster.leader(topic)
    assert first is not None
    cluster.shut_down(first)
    assert cluster.leader(topic) not in (None, first), "the leadership moves before the session of the broker ends"
    produce(cluster, topic, "without it")
    cluster.restart(first)
    cluster.wait_for(lambda: cluster.in_sync(topic) == [1, 2, 3], PATIENCE_S)
    assert values(cluster, topic) == [b"without it"]


def test_resumed_former_partition_leader_catches_up_as_in_sync_follower(cluster: ottla.Cluster) -> None:
    topic = replicated(cluster)
    first = cluster.leader(topic)
    assert first is not None
    produce(cluster, topic, "before")
    cluster.pause(first)
    cluster.wait_for(lambda: cluster.leader(topic) not in (None, first), PATIENCE_S)
    produce(cluster, topic, "meanwhile")
    cluster.resume(first)
    cluster.wait_for(lambda: cluster.in_sync(topic) == [1, 2, 3], PATIENCE_S)
    cluster.move_leader(topic, 0, to=first)
    assert values(cluster, topic) == [b"before", b"meanwhile"]


def test_failed_broker_restart_is_reported(cluster: ottla.Cluster) -> None:
    cluster.kill(2)
    identity = cluster.data_dir / "broker-2" / "meta.properties"
    whole = identity.read_text()
    identity.write_text(whole.replace("node.id=2", "node.id=7"))
    try:
        with pytest.raises(ClusterFailed, match="broker 2 did not start"):
            cluster.restart(2)
    finally:
        identity.write_text(whole)
    cluster.restart(2)
    assert cluster.wait_for(lambda: cluster.in_service() == [1, 2, 3], PATIENCE_S)
