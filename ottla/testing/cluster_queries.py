"""Requests that `Broker`, `Cluster` and the plugin send to a cluster of ottla or Apache Kafka. Each request opens a connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.client.real_time import monotonic_s, now_ms

if TYPE_CHECKING:
    from ottla.client.admin.transactions import TransactionDescription
    from ottla.client.kafka_client import KafkaClient
    from ottla.client.records.producing import WrittenRecord
    from ottla.client.records.reading import Isolation
    from ottla.client.records.record import ConsumedRecord, NewRecord
    from ottla.client.security.client_config import Connecting
    from ottla.protocol.messages.metadata import MetadataResponsePartition

T = TypeVar("T")

TIMEOUT_S = 10.0
PAUSE_S = 0.02
"""Pause, in seconds, between two calls of a condition."""
CREATION_TIMEOUT_S = 3.0
"""Timeout, in seconds, for the automatic creation of a topic."""
NOT_THERE_YET = ("UNKNOWN_TOPIC_OR_PARTITION", "GROUP_ID_NOT_FOUND", "TRANSACTIONAL_ID_NOT_FOUND")
"""Errors that `wait_for` retries. Names instead of codes, because this module imports the protocol lazily."""


class Questions:
    """Requests to the cluster at the address that ``bootstrap()`` returns. Each method raises `ottla.client.ClientError`.

    ``connecting`` returns the credentials for that address, and ``now_ms`` the time of records without a timestamp.
    """

    def __init__(
        self,
        bootstrap: Callable[[], str],
        connecting: Callable[[str], Connecting | None] = lambda _: None,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._bootstrap = bootstrap
        self.now_ms = now_ms
        self._connecting = connecting

    def cluster(self) -> KafkaClient:
        """Open a client for several requests. The caller must close it."""
        from ottla.client import KafkaClient
        from ottla.control.faults.matching import HANDLE_CLIENT_ID

        bootstrap = self._bootstrap()
        return KafkaClient(bootstrap, TIMEOUT_S, client_id=HANDLE_CLIENT_ID, connecting=self._connecting(bootstrap))

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None, *, replication_factor: int = -1
    ) -> None:
        """Create a topic. By default the broker's settings determine the numbers of partitions and replicas."""
        with self.cluster() as cluster:
            cluster.create_topic(name, -1 if partitions is None else partitions, dict(configs or {}), replication_factor)

    def records(self, topic: str, isolation: Isolation = "committed") -> list[ConsumedRecord]:
        """Return all current records of a topic, ordered by partition and offset."""
        with self.cluster() as cluster:
            return cluster.records(topic, isolation=isolation)

    def produce(self, topic: str, records: list[NewRecord]) -> list[WrittenRecord]:
        """Write records, and return the partition and offset of each."""
        from ottla.client.records.producing import produce_each

        return self.write(topic, lambda client: produce_each(client.brokers, topic, records, self.now_ms)) if records else []

    def write(self, topic: str, write: Callable[[KafkaClient], T]) -> T:
        """Call ``write``, after the brokers have created the topic if they create topics automatically."""
        from ottla.client.errors import UnknownTopic

        with self.cluster() as client:
            try:
                return write(client)
            except UnknownTopic:
                _create_automatically(client, topic)
                return write(client)

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        with self.cluster() as cluster:
            return cluster.transaction(transactional_id)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Return the lag of a group by topic and partition; see `ottla.client.admin.groups.lag`."""
        with self.cluster() as cluster:
            return cluster.lag(group)

    # clusters of several brokers

    def in_service(self) -> list[int]:
        """Return the ids of the brokers in the Metadata response."""
        with self.cluster() as cluster:
            return [node.node_id for node in cluster.brokers.nodes()]

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of a partition's leader; None without a leader."""
        leader = self._partition(topic, partition).leader_id
        return None if leader < 0 else leader

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the brokers with the in-sync replicas of a partition."""
        return sorted(self._partition(topic, partition).isr_nodes)

    def _partition(self, topic: str, partition: int) -> MetadataResponsePartition:
        from ottla.client.admin.leadership import described

        with self.cluster() as cluster:
            return described(cluster.brokers, topic, partition)

    def coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> int:
        """Return the id of the broker that coordinates a transactional id or a group."""
        from ottla.client.cluster import GROUP, TRANSACTION

        if (transactional_id is None) is (group is None):
            raise ValueError("give one of transactional_id= and group=")
        kind, key = (GROUP, group) if transactional_id is None else (TRANSACTION, transactional_id)
        with self.cluster() as cluster:
            brokers = cluster.brokers
            return brokers.until_final(f"looking for the coordinator of {key!r}", lambda: brokers.coordinator_id(kind, key or ""))

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make an in-sync replica the leader of a partition."""
        from ottla.client.admin.leadership import move_leader

        with self.cluster() as cluster:
            move_leader(cluster.brokers, topic, partition, to)


def _create_automatically(client: KafkaClient, topic: str) -> None:
    """Send the Metadata request by which a producer has its topic created. Raises `UnknownTopic` if the brokers create none."""
    from ottla.client.errors import KafkaAnswered
    from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    brokers, request = client.brokers, MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    deadline_s = monotonic_s() + CREATION_TIMEOUT_S
    while True:
        brokers.until_final(f"looking for topic {topic!r}", lambda: brokers.ask(brokers.anyone(), request))
        try:
            brokers.leaders(topic)
            return
        except KafkaAnswered:
            if not pause_until(deadline_s):
                raise


def pause_until(deadline_s: float) -> bool:
    """Sleep briefly before another attempt. Returns False if the deadline has passed."""
    if monotonic_s() >= deadline_s:
        return False
    time.sleep(PAUSE_S)
    return True


def wait_for(condition: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """Wait until ``condition`` returns a true value, and return that value. Raises TimeoutError with the last value.

    ``condition`` is called again if it raises because a topic, group or transactional id does not exist. Other errors are raised.
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
            last = f"value: {value!r}" if absent is None else f"error: {absent}"
            raise TimeoutError(f"Condition not met within {timeout_s:g} s; last {last}.") from absent
        time.sleep(PAUSE_S)
