"""Compares three brokers of ottla with three of Apache Kafka in alternating runs: ``python -m benchmarks.failover [--pairs 5]
[--scale 0.5]``.

In each pair of runs both clusters are started on new directories, one after the other: a controller and three brokers with the same
settings (`ottla.brokers.plan.defaults`: a session timeout of three seconds). Records and transactions are written to three replicas
with acks=all. Then brokers are killed by SIGKILL while a stock client continues. It measures the time

- from the kill of a partition's leader until a record that was sent afterwards is acknowledged,
- from the kill of the transaction coordinator until a transaction that began afterwards is committed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from rich.console import Console
from rich.progress import Progress

import ottla
from benchmarks.brokers import memory_mib
from benchmarks.compare import markdown, rows, table_of
from benchmarks.workloads import Sample, Samples, Size, java_produce, java_transactions
from ottla.brokers.plan import defaults
from tools.kafka_cluster import ApacheKafkas, SeveralBrokers

KINDS = ("kafka", "ottla")
BROKERS = 3
PARTITIONS = 3
RECORD_BYTES = 100
PATIENCE_S = 60.0
"""Timeout of clients and of the cluster's recovery, in seconds."""


def started(kind: str, directory: Path) -> SeveralBrokers:
    """Start a cluster. Raises `tools.kafka.Unavailable` if Apache Kafka is not available."""
    if kind == "kafka":
        return ApacheKafkas(directory, BROKERS, heap="512M").start()
    return ottla.Cluster(BROKERS, settings=defaults(BROKERS)).start()


def measure(kind: str, directory: Path, size: Size) -> Samples:
    began = time.monotonic()
    cluster = started(kind, directory)
    try:
        samples: Samples = {"start of all (s)": Sample(time.monotonic() - began)}
        samples["memory of a broker (MiB)"] = Sample(max(memory_mib(cluster.pid(broker)) for broker in cluster.brokers))
        samples |= loads(cluster, size)
        samples["leader killed, until a record is acknowledged (s)"] = Sample(after_leader(cluster))
        samples["coordinator killed, until a commit (s)"] = Sample(after_coordinator(cluster))
        return samples
    finally:
        cluster.close()


def loads(cluster: SeveralBrokers, size: Size) -> Samples:
    """Measure three replicas without failures. Each measurement begins with a warm-up."""
    samples: Samples = {}
    cluster.create_topic("records", PARTITIONS, replication_factor=BROKERS)
    cluster.create_topic("transactions", PARTITIONS, replication_factor=BROKERS)
    count = size.records(500_000)
    java_produce(cluster, "records", count, RECORD_BYTES, None)
    samples["produce, Java, acks=all (records/s)"] = Sample(java_produce(cluster, "records", count, RECORD_BYTES, None))
    for producers in (1, 8):
        per_s, p50, _ = java_transactions(cluster, "transactions", producers, size.seconds(4), size.seconds(8))
        label = f"Java TV2, {producers} producer{'s' if producers > 1 else ''}"
        samples[f"transactions, {label} (1/s)"] = Sample(per_s)
        samples[f"commit p50, {label} (ms)"] = Sample(p50)
    return samples


def after_leader(cluster: SeveralBrokers) -> float:
    """Return the seconds from the kill of a partition's leader until a record that was sent afterwards is acknowledged."""
    cluster.create_topic("led", 1, replication_factor=BROKERS)
    producer = Producer(_client(cluster))
    _produce(producer, "led")
    leader = cluster.leader("led")
    assert leader is not None
    cluster.kill(leader)
    began = time.monotonic()
    _produce(producer, "led")
    took_s = time.monotonic() - began
    _restart(cluster, leader, "led")
    return took_s


def after_coordinator(cluster: SeveralBrokers) -> float:
    """Return the seconds from the kill of a transaction coordinator until a transaction that began afterwards is committed.

    The coordinator does not lead the partitions to which the transaction writes.
    """
    coordinator = cluster.coordinator(transactional_id="failover")
    cluster.create_topic("written", 1, replication_factor=BROKERS)
    cluster.wait_for(lambda: len(cluster.in_sync("written")) == BROKERS, PATIENCE_S)
    if cluster.leader("written") == coordinator:
        cluster.move_leader("written", 0, next(broker for broker in cluster.brokers if broker != coordinator))
    producer = Producer(_client(cluster) | {"transactional.id": "failover"})
    producer.init_transactions(PATIENCE_S)
    _commit(producer)
    cluster.kill(coordinator)
    began = time.monotonic()
    _commit(producer)
    took_s = time.monotonic() - began
    _restart(cluster, coordinator, "written")
    return took_s


def _client(cluster: SeveralBrokers) -> dict[str, Any]:
    # With a higher log level the client would log that it cannot connect to the killed broker.
    return {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 2}


def _produce(producer: Producer, topic: str) -> None:
    """Write one record and wait for the acknowledgement. Raises RuntimeError on failure."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer.produce(topic, b"v" * RECORD_BYTES, on_delivery=delivered)
    left = producer.flush(PATIENCE_S)
    if left or failures:
        raise RuntimeError(f"a record was not acknowledged: {failures or 'no answer'}")


def _commit(producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce("written", b"v" * RECORD_BYTES)
    producer.commit_transaction(PATIENCE_S)


def _restart(cluster: SeveralBrokers, broker: int, topic: str) -> None:
    cluster.restart(broker)
    cluster.wait_for(lambda: len(cluster.in_sync(topic)) == BROKERS, PATIENCE_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--markdown", type=Path, help="write the table for docs/performance.md here")
    options = parser.parse_args()
    console, size = Console(width=170), Size(options.scale)
    pairs: list[tuple[Samples, Samples]] = []
    with tempfile.TemporaryDirectory(prefix="ottla-failover-") as root, Progress(console=console) as progress:
        task = progress.add_task("measuring", total=options.pairs * len(KINDS))
        for number in range(options.pairs):
            by_kind: dict[str, Samples] = {}
            for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                progress.update(task, description=f"pair {number + 1}: {kind}")
                by_kind[kind] = measure(kind, Path(root) / f"{kind}-{number}", size)
                progress.advance(task)
            pairs.append((by_kind["kafka"], by_kind["ottla"]))
    table_rows = rows(pairs)
    console.print(table_of(table_rows, "Kafka"))
    if options.markdown is not None:
        options.markdown.write_text(markdown(table_rows, "Kafka"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
