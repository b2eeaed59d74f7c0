"""Clusters for the chaos tests: clusters of ottla, and mixed clusters of ottla and Apache Kafka.

With ``--under kafka``, three ottla brokers run with an Apache Kafka controller. With ``--with kafka``, two ottla brokers and one
Apache Kafka broker run with an ottla controller.
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
    # A Java broker that has just started shares two cores with the clients, so its heartbeats need a long session timeout.
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
}
OF_OTTLA_ONLY = ("log.segment.bytes",)
"""Settings for ottla brokers only. Apache Kafka refuses segments smaller than 1 MiB (KIP-1030)."""
START_MOMENTS_S = {True: 1.0, False: 3.0}
"""Maximum delay before a starting broker is killed, in seconds; the key is True for ottla, False for Apache Kafka."""


class PlayedCluster(SeveralBrokers, Protocol):
    """The cluster methods that chaos tests need in addition to the common interface of test clusters."""

    @property
    def logs(self) -> list[str]: ...

    def start(self) -> PlayedCluster: ...

    def stop(self) -> int | None: ...

    def partition(self, broker: int) -> None: ...


@dataclass(slots=True)
class Campaign:
    """A cluster, with the data that depends on its kind: session timeout, log directories and the ottla brokers."""

    cluster: PlayedCluster
    session_ms: int
    log_dir: Callable[[int], Path]
    of_ottla: list[int]
    """Ids of the brokers that run ottla."""

    @property
    def of_kafka(self) -> list[int]:
        return [broker for broker in self.cluster.brokers if broker not in self.of_ottla]

    def kill_while_starting(self, broker: int, rng: random.Random) -> None:
        """Kill a running broker and restart it, then kill it again at a random time before it is ready."""
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
            # If the start had already finished, the cluster object still treats the killed broker as running.
            cluster.kill(broker)
        cluster.heal()

    def _restart_that_may_fail(self, broker: int) -> None:
        with suppress(ClusterFailed, StartFailed):
            self.cluster.restart(broker)

    def reassign(self, where: TopicPartition, replicas: list[int]) -> None:
        """Reassign the replicas of a partition to the brokers ``replicas``. Raises `ottla.client.ClientError`."""
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
    """Start a cluster of this kind. Raises `tools.kafka.Unavailable` if it needs Apache Kafka and that is not installed."""
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
