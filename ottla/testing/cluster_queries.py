"""The questions that the handle and the plugin ask a cluster, ottla's or another. Each question opens a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.client.real_time import monotonic_s

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient
    from ottla.client.reading import Isolation
    from ottla.client.records import ConsumedRecord
    from ottla.client.transactions import TransactionDescription
    from ottla.protocol.messages.metadata import MetadataResponsePartition

T = TypeVar("T")

TIMEOUT_S = 10.0
PAUSE_S = 0.02
"""The pause between two calls of a condition, in seconds."""
NOT_THERE_YET = ("UNKNOWN_TOPIC_OR_PARTITION", "GROUP_ID_NOT_FOUND", "TRANSACTIONAL_ID_NOT_FOUND")
"""Errors that `wait_for` reads as "not yet", by Kafka's names, because this module imports the protocol only when it is used."""


class Questions:
    """Questions about the cluster at the address that ``bootstrap()`` returns. Each raises `ottla.client.ClientError`, one line for
    a person."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap

    def cluster(self) -> KafkaClient:
        """A client for several requests. The caller closes it."""
        from ottla.client import KafkaClient
        from ottla.control.faults.matching import HANDLE_CLIENT_ID

        return KafkaClient(self._bootstrap(), TIMEOUT_S, client_id=HANDLE_CLIENT_ID)

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None, *, replication_factor: int = -1
    ) -> None:
        """Create a topic. By default it has as many partitions and replicas as the broker's settings say."""
        with self.cluster() as cluster:
            cluster.create_topic(name, -1 if partitions is None else partitions, dict(configs or {}), replication_factor)

    def records(self, topic: str, isolation: Isolation = "committed") -> list[ConsumedRecord]:
        """All records that a topic has now, by partition and offset."""
        with self.cluster() as cluster:
            return cluster.records(topic, isolation=isolation)

    def transaction(self, transactional_id: str) -> TransactionDescription:
        with self.cluster() as cluster:
            return cluster.transaction(transactional_id)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many offsets a group has not committed yet, by topic and partition, up to the high watermark and with the markers of
        transactions. A partition that a member owns and for which nothing is committed counts from the log's start."""
        with self.cluster() as cluster:
            return cluster.lag(group)

    # of a cluster of several brokers

    def in_service(self) -> list[int]:
        """The ids of the brokers that clients are told of."""
        with self.cluster() as cluster:
            return [node.node_id for node in cluster.brokers.nodes()]

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The id of a partition's leader; None where it has none now."""
        leader = self._partition(topic, partition).leader_id
        return None if leader < 0 else leader

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of the brokers with the in-sync replicas of a partition."""
        return sorted(self._partition(topic, partition).isr_nodes)

    def _partition(self, topic: str, partition: int) -> MetadataResponsePartition:
        from ottla.client.leadership import described

        with self.cluster() as cluster:
            return described(cluster.brokers, topic, partition)

    def coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> int:
        """The id of the broker that coordinates a transactional id or a group."""
        from ottla.client.brokers import GROUP, TRANSACTION

        if (transactional_id is None) is (group is None):
            raise ValueError("give one of transactional_id= and group=")
        kind, key = (GROUP, group) if transactional_id is None else (TRANSACTION, transactional_id)
        with self.cluster() as cluster:
            brokers = cluster.brokers
            return brokers.until_final(f"looking for the coordinator of {key!r}", lambda: brokers.coordinator_id(kind, key or ""))

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Have an in-sync replica lead a partition."""
        from ottla.client.leadership import move_leader

        with self.cluster() as cluster:
            move_leader(cluster.brokers, topic, partition, to)


def wait_for(condition: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """Wait until ``condition`` returns a true value, and return that value. Raises TimeoutError with the last value.

    A condition that fails because a topic, group or transactional id does not exist yet is called again, because a test may wait
    for an application's lag before the application has made its group. Any other error of the condition ends the waiting.
    """
    from ottla.client.errors import KafkaAnswered

    deadline_s = monotonic_s() + timeout_s
    while True:
        absent: KafkaAnswered | None = None
        try:
            value = condition()
        except KafkaAnswered as error:
            if error.code.name not in NOT_THERE_YET:
                raise
            absent = error
        else:
            if value:
                return value
        if monotonic_s() > deadline_s:
            last = f"gave {value!r}" if absent is None else f"said: {absent}"
            raise TimeoutError(f"it has not come in {timeout_s:g} s; the last look {last}") from absent
        time.sleep(PAUSE_S)
