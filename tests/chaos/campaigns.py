"""The clusters that chaos is played on: ottla's own, and those whose nodes are partly of Apache Kafka.

``--under kafka``: three brokers of ottla under a controller of Apache Kafka. ``--with kafka``: two brokers of ottla and one of
Apache Kafka under ottla's controller.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ottla.client.kafka_client import KafkaClient
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.testing.cluster_handle import CONTROLLER, Cluster, ClusterFailed
from tools.kafka import StartFailed
from tools.kafka_cluster import ApacheKafkas, SeveralBrokers

OTTLA, UNDER_KAFKA, WITH_KAFKA = "ottla", "under kafka", "with kafka"
CAMPAIGNS = (OTTLA, UNDER_KAFKA, WITH_KAFKA)
OTTLA_NODES = {UNDER_KAFKA: (1, 2, 3), WITH_KAFKA: (1, 2, CONTROLLER)}
MIXED_SETTINGS = {
    # A Java that has just started shares two cores with the clients. Its heartbeats are late.
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
}
OF_OTTLA_ONLY = ("log.segment.bytes",)
"""Settings whose values Apache Kafka refuses: its segments have 1 MiB at least (KIP-1030)."""
START_MOMENTS_S = {True: 1.0, False: 3.0}
"""How long a start takes at most before it is killed, by whether the broker is of ottla."""


class PlayedCluster(SeveralBrokers, Protocol):
    """What chaos needs of a cluster besides what tests ask of all."""

    @property
    def logs(self) -> list[str]: ...

    def start(self) -> PlayedCluster: ...

    def stop(self) -> int | None: ...

    def partition(self, broker: int) -> None: ...


@dataclass(slots=True)
class Campaign:
    """A cluster and what differs by its kind."""

    cluster: PlayedCluster
    session_ms: int
    log_dir: Callable[[int], Path]
    of_ottla: list[int]
    """The brokers of ottla."""

    @property
    def of_kafka(self) -> list[int]:
        return [broker for broker in self.cluster.brokers if broker not in self.of_ottla]

    def kill_while_starting(self, broker: int, rng: random.Random) -> None:
        """Kill a broker that runs, and kill it again at some moment between its process's start and its being ready."""
        cluster = self.cluster
        cluster.kill(broker)
        is_forked = isinstance(cluster, Cluster)
        parent = _parent(cluster.pid(CONTROLLER)) if is_forked else 0
        before = _children(parent) if is_forked else set()
        restarting = threading.Thread(target=self._restart_that_may_fail, args=[broker])
        restarting.start()

        def started() -> set[int]:
            if is_forked:
                return _children(parent) - before
            with suppress(ValueError):
                return {cluster.pid(broker)}
            return set()

        while not (starting := started()) and restarting.is_alive():
            time.sleep(0.001)
        time.sleep(rng.random() * (0.4 if is_forked else START_MOMENTS_S[broker in self.of_ottla]))
        for pid in starting:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        restarting.join()
        if not is_forked:
            # A start that was over by then leaves a broker that counts as one that runs.
            cluster.kill(broker)
        cluster.heal()

    def _restart_that_may_fail(self, broker: int) -> None:
        with suppress(ClusterFailed, StartFailed):
            self.cluster.restart(broker)

    def reassign(self, where: TopicPartition, replicas: list[int]) -> None:
        """Place a partition's replicas on these brokers. Raises `ottla.client.ClientError`."""
        topic, index = where
        placed = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        with KafkaClient(self.cluster.bootstrap, 10.0, client_id="chaos") as client:
            brokers = client.brokers

            def attempt() -> bool:
                answer = brokers.ask(brokers.controller(), AlterPartitionReassignmentsRequest(topics=[placed]))
                codes = {answer.error_code, *(p.error_code for t in answer.responses for p in t.partitions)}
                return codes == {Code.NONE}

            self.cluster.wait_for(attempt, 60.0)


def start(kind: str, directory: Path, settings: Mapping[str, str | int | bool], brokers: int) -> Campaign:
    """Raises `tools.kafka.Unavailable` where Apache Kafka cannot be had."""
    data_dir = directory / "data"
    if kind == OTTLA:
        cluster = Cluster(brokers, data_dir=data_dir, settings=settings)
        made = Campaign(
            cluster, int(settings["broker.session.timeout.ms"]), lambda broker: data_dir / f"broker-{broker}", cluster.brokers
        )
    else:
        shared = {**settings, **MIXED_SETTINGS}
        own = {key: str(shared.pop(key)) for key in OF_OTTLA_ONLY if key in shared}
        nodes = OTTLA_NODES[kind]
        mixed = ApacheKafkas(
            data_dir, brokers, settings=shared, settings_of=dict.fromkeys(nodes, own), ottla_nodes=nodes, heap="512M"
        )
        session_ms = int(MIXED_SETTINGS["broker.session.timeout.ms"])
        made = Campaign(mixed, session_ms, mixed.log_dir, [broker for broker in mixed.brokers if mixed.is_ottla(broker)])
    made.cluster.start()
    return made


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
