"""`ottla cluster grow` turns a single broker into a cluster of three, and its clients continue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla
from ottla.cli import main
from ottla.client.errors import ClientError

pytestmark = [pytest.mark.wire, pytest.mark.full]

PATIENCE_S = 60.0
SETTINGS = {
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 300,
}
TOPICS = {"t": 3, "compacted": 1}
GROUP = "readers"


def producer(bootstrap: str, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    made.init_transactions(PATIENCE_S)
    return made


def write(producer: Producer, name: str) -> None:
    producer.begin_transaction()
    for partition in range(TOPICS["t"]):
        producer.produce("t", f"{name} {partition}", partition=partition)
    producer.produce("compacted", name, key="k")
    assert producer.flush(PATIENCE_S) == 0


def commit_offsets(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()


def committed_offset(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    (found,) = consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
    consumer.close()
    assert found.error is None
    return int(found.offset)


def values(cluster: ottla.Cluster | ottla.Broker, topic: str) -> list[bytes | None]:
    return sorted(record.value for record in cluster.records(topic))  # type: ignore[type-var]


def written(*names: str) -> list[bytes]:
    return sorted(f"{name} {partition}".encode() for name in names for partition in range(TOPICS["t"]))


@pytest.mark.parametrize("is_killed", [False, True])
def test_single_broker_grows_to_a_cluster_of_three_while_clients_continue(tmp_path: Path, *, is_killed: bool) -> None:
    data_dir = tmp_path / "data"
    with ottla.Broker(data_dir=data_dir, settings={k: v for k, v in SETTINGS.items() if not k.startswith("broker.")}) as broker:
        bootstrap = broker.bootstrap
        broker.create_topic("t", TOPICS["t"])
        broker.create_topic("compacted", 1, {"cleanup.policy": "compact"})
        steady, left_open = producer(bootstrap, "steady"), producer(bootstrap, "left open")
        write(steady, "first")
        steady.commit_transaction(PATIENCE_S)
        write(steady, "refused")
        steady.abort_transaction(PATIENCE_S)
        commit_offsets(bootstrap, 1)
        write(left_open, "open")
        if is_killed:
            broker.kill()
        else:
            broker.stop()
    assert main(["cluster", "grow", "--data-dir", str(data_dir), "--brokers", "3", "--replication-factor", "3"]) == 0
    # Broker 1 gets the address of the single broker, so that clients can reconnect.
    (data_dir / "ports.json").write_text(json.dumps({"broker-1": int(bootstrap.rpartition(":")[2])}))
    with ottla.Cluster(3, data_dir=data_dir, settings=SETTINGS) as cluster:
        assert cluster.address(1) == bootstrap
        left_open.commit_transaction(PATIENCE_S)
        write(steady, "second")
        steady.commit_transaction(PATIENCE_S)
        assert values(cluster, "t") == written("first", "open", "second")
        assert values(cluster, "compacted")[-1] == b"second"
        assert committed_offset(cluster.bootstrap) == 1
        internal = {"__consumer_offsets": 3, "__transaction_state": 3}
        everywhere = [(topic, index) for topic, count in {**TOPICS, **internal}.items() for index in range(count)]
        cluster.wait_for(lambda: all(cluster.in_sync(*where) == [1, 2, 3] for where in everywhere), PATIENCE_S)
        cluster.kill(1)
        cluster.wait_for(lambda: leads_all(cluster, everywhere), PATIENCE_S)
        write(steady, "third")
        steady.commit_transaction(PATIENCE_S)
        assert values(cluster, "t") == written("first", "open", "second", "third")
        assert committed_offset(cluster.bootstrap) == 1
        commit_offsets(cluster.bootstrap, 2)
        cluster.restart(1)
        cluster.wait_for(lambda: all(cluster.in_sync(*where) == [1, 2, 3] for where in everywhere), PATIENCE_S)
        assert committed_offset(cluster.bootstrap) == 2
        errors = [line for line in cluster.logs if '"level": "error"' in line]
    assert not errors


def leads_all(cluster: ottla.Cluster, partitions: list[tuple[str, int]]) -> bool:
    """Whether brokers other than 1 lead all of these partitions."""
    try:
        return all(cluster.leader(*where) in (2, 3) for where in partitions)
    except ClientError:
        return False
