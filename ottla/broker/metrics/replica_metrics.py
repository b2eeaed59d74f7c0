"""The metrics of a broker's replicas, named as the JMX exporter names Kafka's metrics (ReplicaManagerMetrics, Partition)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.replication.leader import Leader

LATE_BUFFER_MS = 5 * 60_000
"""A transaction is late if it has been open for longer than the longest allowed timeout plus this many ms (KIP-664)."""


class Ports(Protocol):
    """The parts of the broker that are measured."""

    live_config: LiveConfig
    clock: Clock
    partitions: Partitions
    cluster: ClusterCommands
    counters: Counters


def replica_metrics(ports: Ports) -> Iterator[Metric]:
    """The metrics of all replicas of the broker."""
    led: list[tuple[Partition, Leader]] = []
    for partition in ports.partitions:
        if partition.is_led:
            partition.leader.min_in_sync = partition.log.config.min_insync_replicas
            led.append((partition, partition.leader))
    yield from _manager_gauges(ports, led)
    yield from _in_sync_changes(ports.counters)
    yield from _partition_gauges(led)


def _manager_gauges(ports: Ports, led: list[tuple[Partition, Leader]]) -> Iterator[Metric]:
    limit_ms = ports.live_config.settings.transaction_max_timeout_ms + LATE_BUFFER_MS
    now_ms = ports.clock.now_ms()
    states = [p.log.producers for p in ports.partitions]
    leaders = [leader for _, leader in led]
    for what, text, value in (
        (
            "partitionswithlatetransactionscount",
            "Partitions with a transaction that is open for more than 5 minutes beyond transaction.max.timeout.ms",
            sum(s.has_late_transaction(now_ms, limit_ms) for s in states),
        ),
        ("produceridcount", "Producer ids in the producer state of all partitions", sum(len(s.entries) for s in states)),
        ("partitioncount", "Replicas on this broker", len(ports.partitions)),
        ("leadercount", "Partitions led by this broker", len(led)),
        (
            "underreplicatedpartitions",
            "Partitions led by this broker with replicas that are not in sync",
            sum(leader.is_under_replicated for leader in leaders),
        ),
        (
            "underminisrpartitioncount",
            "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas",
            sum(leader.is_under_min for leader in leaders),
        ),
        (
            "atminisrpartitioncount",
            "Partitions led by this broker with exactly min.insync.replicas in-sync replicas",
            sum(leader.is_at_min for leader in leaders),
        ),
        (
            "reassigningpartitions",
            "Partitions led by this broker whose replicas are being reassigned",
            sum(_is_reassigning(ports.cluster, partition) for partition, _ in led),
        ),
        ("offlinereplicacount", "Replicas of this broker that are offline", sum(p.log.is_offline for p in ports.partitions)),
    ):
        yield GaugeMetricFamily(f"kafka_server_replicamanager_{what}", text, value=value)


def _is_reassigning(cluster: ClusterCommands, partition: Partition) -> bool:
    topic = cluster.state.topics_by_id.get(partition.log.topic_id)
    index = partition.log.partition
    return topic is not None and index < topic.partition_count and topic.partitions[index].is_reassigning


def _in_sync_changes(counters: Counters) -> Iterator[Metric]:
    """As in Kafka, changes that the controller makes itself, because it fences a broker, are not counted."""
    for what, text, count in (
        (
            "isrexpands",
            "Replicas that were added to in-sync sets because this broker, their leader, requested it",
            counters.isr_expands,
        ),
        (
            "isrshrinks",
            "Removals of lagging replicas from in-sync sets that this broker, their leader, requested",
            counters.isr_shrinks,
        ),
        (
            "failedisrupdates",
            "Changes of in-sync sets that this broker requested and the controller refused",
            counters.failed_isr_updates,
        ),
    ):
        yield CounterMetricFamily(f"kafka_server_replicamanager_{what}", text, value=count)


def _partition_gauges(led: list[tuple[Partition, Leader]]) -> Iterator[Metric]:
    """Kafka also has these gauges, with the value 0, for the partitions that a broker follows; here their samples are omitted."""
    gauges: list[tuple[str, str, Callable[[Leader], float]]] = [
        ("replicascount", "Replicas of a partition led by this broker", lambda leader: len(leader.followers) + 1),
        ("insyncreplicascount", "In-sync replicas of a partition led by this broker", lambda leader: len(leader.in_sync.committed)),
        ("underreplicated", "1 if replicas of a partition are not in sync, else 0", lambda leader: leader.is_under_replicated),
        ("underminisr", "1 if fewer replicas than min.insync.replicas are in sync, else 0", lambda leader: leader.is_under_min),
        ("atminisr", "1 if exactly min.insync.replicas replicas are in sync, else 0", lambda leader: leader.is_at_min),
    ]
    for what, text, value in gauges:
        family = GaugeMetricFamily(f"kafka_cluster_partition_{what}", text, labels=["topic", "partition"])
        for partition, leader in led:
            family.add_metric([partition.log.topic, str(partition.log.partition)], float(value(leader)))
        yield family
