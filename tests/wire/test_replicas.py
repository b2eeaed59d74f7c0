"""Three brokers replicate a stock client's records while they are killed, frozen and stopped."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer

import ottla

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.long]

TOPIC = "t"
PARTITIONS = 3
SETTINGS = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_500,
}
FAULTS = 12
PATIENCE_S = 60.0


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, {"min.insync.replicas": "2"}, replication_factor=3)
        yield cluster


class Load:
    """An idempotent producer with acks=all that writes consecutive numbers in its own thread."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 120_000})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.sent = 0
        self.acknowledged: list[int] = []
        self.failed: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0

    def _write(self) -> None:
        while not self._is_over.is_set():
            number = self.sent
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._noting(number))
            self.sent += 1
            self._producer.poll(0)
            time.sleep(0.002)

    def _noting(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.failed.append(str(error))

        return answered


def hit(cluster: ottla.Cluster, rng: random.Random) -> None:
    broker, kind = rng.choice(cluster.brokers), rng.choice(["kill", "freeze", "stop", "move"])
    if kind == "kill":
        cluster.kill(broker)
        time.sleep(rng.random() * 2)
        cluster.restart(broker)
    elif kind == "freeze":
        cluster.pause(broker)
        # Half of these pauses are longer than the session timeout, so that the broker resumes as a former leader.
        time.sleep(rng.random() * 3)
        cluster.resume(broker)
    elif kind == "stop":
        cluster.restart(broker)
    else:
        partition = rng.randrange(PARTITIONS)
        cluster.move_leader(TOPIC, partition, rng.choice(cluster.in_sync(TOPIC, partition)))


def stored(cluster: ottla.Cluster, broker: int, partition: int) -> str:
    """Return a digest of the log files of one replica."""
    digest = hashlib.sha256()
    for path in sorted((cluster.data_dir / f"broker-{broker}" / f"{TOPIC}-{partition}").glob("*.log")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def test_acknowledged_records_survive_broker_faults_and_replicas_are_identical(cluster: ottla.Cluster) -> None:
    load, rng = Load(cluster.bootstrap), random.Random(16)
    load.start()
    for _ in range(FAULTS):
        time.sleep(rng.random())
        hit(cluster, rng)
    cluster.heal()
    load.stop()
    cluster.wait_for(lambda: all(cluster.in_sync(TOPIC, index) == [1, 2, 3] for index in range(PARTITIONS)), PATIENCE_S)
    assert load.failed == []
    assert len(load.acknowledged) == load.sent > 1_000
    records = cluster.records(TOPIC)
    for index in range(PARTITIONS):
        numbers = [int(record.value or b"-1") for record in records if record.partition == index]
        assert numbers == list(range(index, load.sent, PARTITIONS)), "each record is written once, in order"
    errors = [line for line in cluster.logs if '"level": "error"' in line]
    cluster.stop()
    assert errors == []
    for index in range(PARTITIONS):
        assert len({stored(cluster, broker, index) for broker in (1, 2, 3)}) == 1
