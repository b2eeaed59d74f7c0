"""Three brokers in processes lose disks and unsynced writes: acknowledged records survive, and partitions get leaders again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.broker.loop.env import random_uuid
from ottla.brokers.plan import format_directory
from ottla.cli import main
from ottla.storage.real_filesystem import RealFilesystem

pytestmark = [pytest.mark.wire, pytest.mark.full]

SETTINGS = {"broker.session.timeout.ms": 1_500, "broker.heartbeat.interval.ms": 200, "min.insync.replicas": 2}
PATIENCE_S = 60.0
TOPIC = "t"


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, replication_factor=3)
        yield cluster


def write(cluster: ottla.Cluster, *values: str) -> None:
    """Write records and wait until all in-sync replicas have acknowledged them."""
    failures: list[Any] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": int(PATIENCE_S * 1_000)}
    producer = Producer(settings)
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def check(cluster: ottla.Cluster, *values: str) -> None:
    assert [record.value for record in cluster.records(TOPIC)] == [value.encode() for value in values]


def wait_for_leader(cluster: ottla.Cluster) -> int:
    leader: int | None = cluster.wait_for(lambda: cluster.leader(TOPIC), PATIENCE_S)
    assert leader is not None
    return leader


def wait_in_sync(cluster: ottla.Cluster, *brokers: int) -> None:
    cluster.wait_for(lambda: cluster.in_sync(TOPIC) == sorted(brokers), PATIENCE_S)


def replace_disk(cluster: ottla.Cluster, broker: int) -> None:
    directory = cluster.data_dir / f"broker-{broker}"
    shutil.rmtree(directory)
    format_directory(RealFilesystem(), str(directory), broker, random_uuid, cluster.cluster_id)


def cut_tail(directory: Path) -> None:
    """Truncate a partition's log by half, as if a power cut had lost unsynced writes."""
    (segment,) = directory.glob("*.log")
    os.truncate(segment, segment.stat().st_size // 2)


def describe(cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["cluster", "--json", "--bootstrap", cluster.bootstrap]) == 0
    leaderless: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["leaderless"]
    return leaderless


def test_acknowledged_records_survive_a_power_cut_of_the_last_in_sync_leader(cluster: ottla.Cluster) -> None:
    leader = wait_for_leader(cluster)
    values = [f"record {number}" for number in range(500)]
    for at in range(0, len(values), 50):
        write(cluster, *values[at : at + 50])
    wait_in_sync(cluster, 1, 2, 3)
    followers = [broker for broker in (1, 2, 3) if broker != leader]
    for follower in followers:
        cluster.shut_down(follower)
    wait_in_sync(cluster, leader)
    cluster.kill(leader)
    cut_tail(cluster.data_dir / f"broker-{leader}" / f"{TOPIC}-0")
    for broker in (leader, *followers):
        cluster.restart(broker)
    wait_in_sync(cluster, 1, 2, 3)
    check(cluster, *values)


def test_broker_on_a_new_disk_leads_again_and_a_killed_cluster_elects_leaders(cluster: ottla.Cluster) -> None:
    write(cluster, "first")
    cluster.kill(3)
    replace_disk(cluster, 3)
    cluster.restart(3)
    wait_in_sync(cluster, 1, 2, 3)
    cluster.move_leader(TOPIC, 0, 3)
    write(cluster, "second")
    assert cluster.leader(TOPIC) == 3
    for broker in (1, 2, 3):
        cluster.kill(broker)
    for broker in (1, 2, 3):
        cluster.restart(broker)
    wait_for_leader(cluster)
    write(cluster, "third")
    check(cluster, "first", "second", "third")


def test_leaderless_partition_is_reported_with_its_remedy(cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    write(cluster, "first")
    wait_in_sync(cluster, 1, 2, 3)
    last = wait_for_leader(cluster)
    others = [broker for broker in (1, 2, 3) if broker != last]
    for broker in others:
        cluster.kill(broker)
        cluster.wait_for(lambda gone=broker: gone not in cluster.in_sync(TOPIC), PATIENCE_S)
    cluster.kill(last)
    for broker in others:
        cluster.restart(broker)

    def told() -> dict[str, Any] | None:
        found = [p for p in describe(cluster, capsys) if p["topic"] == TOPIC]
        return found[0] if found and found[0]["offline"] == [last] else None

    one = cluster.wait_for(told, PATIENCE_S)
    assert one is not None
    assert (one["partition"], sorted(one["replicas"])) == (0, [1, 2, 3])
    assert f"broker {last}" in one["reason"] and f"start broker {last}; or ottla topic elect --unclean t:0" in one["remedy"]
    assert main(["topic", "elect", "--unclean", "t:0", "--bootstrap", cluster.bootstrap]) == 0
    assert wait_for_leader(cluster) in others
    assert "leads t:0" in capsys.readouterr().out
    write(cluster, "second")
    assert [p for p in describe(cluster, capsys) if p["topic"] == TOPIC] == []
