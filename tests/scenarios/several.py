"""Three brokers and their controller as one target of scenarios. Each request is sent to the broker that is responsible for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ottla
from ottla.protocol.errors import Code
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.simulation.client import Closed, newest
from ottla.testing.cluster_handle import CONTROLLER
from tests.support import oracle
from tests.support.oracle import GROUP, TRANSACTION
from tests.support.raw_client import RawClient
from tools.kafka_cluster import ApacheKafkas, SeveralBrokers

RACKS = {1: "r1", 2: "r2", 3: "r3"}
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "auto.create.topics.enable": "false",
    # The session timeout is longer than the delays of a broker on a busy machine. A case that kills a broker waits for the
    # session's end.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "6000",
    "replica.fetch.wait.max.ms": "100",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Leaders change only when a case moves them.
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
_OF_THE_TRANSACTION = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions")
_OF_THE_GROUP = (
    "TxnOffsetCommit",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "DescribeGroups",
    "DeleteGroups",
)
_OF_THE_LEADER = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "OffsetForLeaderEpoch",
    "DeleteRecords",
    "DescribeProducers",
    "WriteTxnMarkers",
)


def start(target: str, directory: Path) -> SeveralTarget:
    """Start three brokers. Raises `Unavailable` if Apache Kafka is not available."""
    if target == "ottla":
        ours = ottla.Cluster(3, settings=SETTINGS | {"broker.rack": ",".join(RACKS.values())}).start()
        return SeveralTarget(ours, ours.quorum_voters)
    racks = {broker: {"broker.rack": rack} for broker, rack in RACKS.items()}
    kafkas = ApacheKafkas(directory, settings=SETTINGS, settings_of=racks).start()
    return SeveralTarget(kafkas, kafkas.quorum_voters)


class SeveralTarget:
    """A cluster that implements `tests.scenarios.brokers.Target`. While ``pinned`` is set, every request goes to that broker."""

    def __init__(self, cluster: SeveralBrokers, quorum_voters: str) -> None:
        self.cluster = cluster
        self.down: set[int] = set()
        """Ids of the brokers that were killed, stopped or paused."""
        self.pinned: int | None = None
        self._controller = quorum_voters.partition("@")[2]
        self._make_coordinators()

    def address(self, node: int) -> str:
        return self._controller if node == CONTROLLER else self.cluster.address(node)

    @property
    def up(self) -> list[int]:
        return [broker for broker in self.cluster.brokers if broker not in self.down]

    def connect(self, client_id: str = "scenario") -> Router:
        return Router(self, client_id)

    def connect_as(self, user: str, client_id: str = "scenario") -> Router:
        raise AssertionError("clients of a cluster do not authenticate")

    @contextmanager
    def on(self, node: int | None) -> Iterator[None]:
        before, self.pinned = self.pinned, self.pinned if node is None else node
        try:
            yield
        finally:
            self.pinned = before

    def heal(self) -> None:
        if self.down:
            self.cluster.heal()
            self.down.clear()

    def restart(self, *, kill: bool = False) -> None:
        raise AssertionError("transcripts restart single brokers of a cluster")

    def close(self) -> None:
        self.cluster.close()

    def sleep(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def _make_coordinators(self) -> None:
        with RawClient(self.address(1)) as client:
            for kind in (GROUP, TRANSACTION):
                oracle.coordinator_known(client, "any", kind)


class Router:
    """A client with a connection to each broker, created when it is first needed; implements `tests.scenarios.brokers.Client`."""

    def __init__(self, target: SeveralTarget, client_id: str) -> None:
        self._target = target
        self._client_id = client_id
        self._clients: dict[int, RawClient] = {}
        self._sent_to: dict[int, int] = {}

    def send(self, request: Any, version: int) -> tuple[int, int]:
        node = self._destination(request)
        sent = self._client(node).send(request, version)
        self._sent_to[sent[0]] = node
        return sent

    def receive(self, sent: tuple[int, int]) -> Any:
        return self._client(self._sent_to[sent[0]]).receive(sent)

    def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request to the responsible broker and return the response. Raises `Closed`."""
        return self._call(self._destination(request), request, version)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _call(self, node: int, request: Any, version: int | None = None) -> Any:
        try:
            return self._client(node).call(request, newest(request) if version is None else version)
        except (Closed, OSError) as error:
            self._clients.pop(node).close()
            raise Closed(str(error)) from None

    def _client(self, node: int) -> RawClient:
        if node not in self._clients:
            try:
                self._clients[node] = RawClient(self._target.address(node), self._client_id)
            except OSError as error:
                raise Closed(str(error)) from None
        return self._clients[node]

    def _destination(self, request: Any) -> int:
        if self._target.pinned is not None:
            return self._target.pinned
        kind = type(request).__name__.removesuffix("Request")
        if kind in _OF_THE_LEADER:
            return self._leader(*_partition_in(request))
        if kind in _OF_THE_TRANSACTION:
            return self._coordinator(_transactional_id_in(request), TRANSACTION)
        if kind in _OF_THE_GROUP:
            return self._coordinator(_group_in(request), GROUP)
        return self._target.up[0]

    def _anyone(self, request: Any, version: int, good: Callable[[Any], int | None]) -> int:
        """Send a request to the running brokers in turn until a response names a running broker.

        Returns that broker, or the first running broker if no response names one.
        """
        for node in self._target.up:
            answer = good(self._call(node, request, version))
            if answer in self._target.up:
                return answer
        return self._target.up[0]

    def _leader(self, topic: str | bytes, index: int) -> int:
        named = MetadataRequestTopic(name=topic) if isinstance(topic, str) else MetadataRequestTopic(topic_id=topic, name=None)
        request = MetadataRequest(topics=[named], allow_auto_topic_creation=False)

        def leader(answer: Any) -> int | None:
            partitions = answer.topics[0].partitions
            return next((p.leader_id for p in partitions if p.partition_index == index), None)

        return self._anyone(request, 12, leader)

    def _coordinator(self, key: str, kind: int) -> int:
        if not key:
            return self._target.up[0]
        request = FindCoordinatorRequest(key=key, key_type=kind)
        return self._anyone(request, 3, lambda answer: None if answer.error_code != Code.NONE else answer.node_id)


def _partition_in(request: Any) -> tuple[str | bytes, int]:
    """Return topic name or id, and index, of the first partition in a request."""
    if hasattr(request, "markers"):
        topic = request.markers[0].topics[0]
        return topic.name, topic.partition_indexes[0]
    topic = (request.topic_data if hasattr(request, "topic_data") else request.topics)[0]
    name = getattr(topic, "name", None) or getattr(topic, "topic", None) or topic.topic_id
    for field in ("partition_data", "partitions", "partition_indexes"):
        for partition in getattr(topic, field, ()):
            if isinstance(partition, int):
                return name, partition
            for index in ("index", "partition", "partition_index"):
                if hasattr(partition, index):
                    return name, getattr(partition, index)
    return name, 0


def _transactional_id_in(request: Any) -> str:
    if getattr(request, "transactions", None):
        return str(request.transactions[0].transactional_id)
    if hasattr(request, "transactional_ids"):
        return str(next(iter(request.transactional_ids), ""))
    return getattr(request, "transactional_id", None) or getattr(request, "v3_and_below_transactional_id", "") or ""


def _group_in(request: Any) -> str:
    if getattr(request, "groups", None):
        group = request.groups[0]
        return group if isinstance(group, str) else str(group.group_id)
    if hasattr(request, "groups_names"):
        return str(request.groups_names[0])
    return str(getattr(request, "group_id", ""))
