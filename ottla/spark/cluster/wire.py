"""A small blocking Kafka client for what stock producers cannot do: many processes that share one transaction.

Each call waits for its response, opens a broken connection again, and retries retriable errors until a deadline. The module does
not depend on Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from ottla.addresses import Address
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.remedies import RETRIABLE, name_of
from ottla.spark.cluster.client_config import Connecting, addresses
from ottla.spark.cluster.connection import TIMEOUT_S, BrokerConnection
from ottla.spark.errors import BrokerRefused, PipelineError

PAUSE_S: Final = 0.05
LATEST, EARLIEST = -1, -2
GROUP, TRANSACTION = 0, 1
"""Coordinator types (FindCoordinator's key types)."""


class ClusterClient:
    """Finds leaders and coordinators, and keeps a connection to each address."""

    def __init__(self, connecting: Connecting, timeout_s: float = TIMEOUT_S) -> None:
        self._bootstrap = list(addresses(connecting.bootstrap))
        """Bootstrap addresses; those that have failed come last."""
        self.connecting = connecting
        self.bootstrap = connecting.bootstrap
        self._connections: dict[Address, BrokerConnection] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        """By type and key; cleared when a request fails."""
        self._leaders: dict[str, dict[int, Address]] = {}
        """By topic and partition, as in the last metadata response."""
        self.timeout_s = timeout_s

    def connection(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = BrokerConnection(address, self.connecting, self.timeout_s)
        return connection

    def drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._coordinators.clear()
        for address in list(self._connections):
            self.drop(address)

    def ask(self, where: Callable[[], Address], request: Any, code_of: Callable[[Any], int], what: str) -> Any:
        """Send a request until its response is final. Raises `BrokerRefused`, and `PipelineError` if no broker responds in time.

        ``where`` is called for each attempt, because leaders and coordinators move.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                answer = self.connection(where()).call(request)
            except OSError as error:
                # The broken connection is not known, so all are closed. They are opened again when needed.
                self.close()
                if time.monotonic() > deadline:
                    raise PipelineError(f"{what}: no broker answers at {self.bootstrap} ({error})") from error
            else:
                code = code_of(answer)
                if code == Code.NONE:
                    return answer
                if code not in RETRIABLE or time.monotonic() > deadline:
                    raise BrokerRefused(what, code)
                # The coordinator may have moved.
                self._coordinators.clear()
            time.sleep(PAUSE_S)

    def anyone(self) -> Address:
        """Return the address of a broker that accepts connections. Raises OSError."""
        for address in self._connections:
            return address
        error: OSError = ConnectionError("no broker is known")
        for _ in range(len(self._bootstrap)):
            address = self._bootstrap[0]
            try:
                self.connection(address)
                return address
            except OSError as refused:
                # The other addresses are tried first from now on, because it takes time to notice a dead broker.
                self._bootstrap.append(self._bootstrap.pop(0))
                error = refused
        raise error

    def transaction_version(self) -> int:
        """Return the finalized level of transaction.version; 0 if the cluster has none."""
        answer = self.ask(
            self.anyone,
            ApiVersionsRequest(client_software_name="ottla-pipeline", client_software_version="1"),
            lambda a: a.error_code,
            "asking for features",
        )
        return next((f.max_version_level for f in answer.finalized_features if f.name == "transaction.version"), 0)

    def leaders(self, topic: str) -> dict[int, Address]:
        """Return the address of each partition's leader. Raises `PipelineError` for a topic that does not exist."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

        def code_of(answer: Any) -> int:
            topic_metadata = answer.topics[0]
            return int(topic_metadata.error_code) or next((p.error_code for p in topic_metadata.partitions if p.error_code), 0)

        try:
            answer = self.ask(self.anyone, request, code_of, f"looking for topic {topic!r}")
        except BrokerRefused as refused:
            if refused.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise PipelineError(f"topic {topic!r} does not exist at {self.bootstrap}; create it first") from None
            raise
        brokers = {b.node_id: (b.host, b.port) for b in answer.brokers}
        self._leaders[topic] = {p.partition_index: brokers[p.leader_id] for p in answer.topics[0].partitions}
        return self._leaders[topic]

    def known_leaders(self, topic: str, partition: int) -> dict[int, Address]:
        """Return the leaders as `leaders` has returned them before, if that included the partition, else call `leaders`."""
        known = self._leaders.get(topic, {})
        return known if partition in known else self.leaders(topic)

    def ranges(self, topic: str, *, committed: bool = False) -> dict[int, tuple[int, int]]:
        """Return the log start and the log end offset of each partition. With ``committed`` the end is the last stable offset."""
        return {
            index: (self._offset(topic, index, EARLIEST, committed), self._offset(topic, index, LATEST, committed))
            for index in self.leaders(topic)
        }

    def _offset(self, topic: str, index: int, timestamp: int, committed: bool) -> int:
        partitions = [ListOffsetsPartition(index, timestamp=timestamp)]
        request = ListOffsetsRequest(
            -1, isolation_level=int(committed), topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
        )
        answer = self.ask(
            lambda: self.leaders(topic)[index],
            request,
            lambda a: a.topics[0].partitions[0].error_code,
            f"asking for offsets of {topic}-{index}",
        )
        return int(answer.topics[0].partitions[0].offset)

    def coordinator(self, kind: int, key: str) -> Address:
        """Return the coordinator of a group or of a transactional id. Raises OSError while none is available."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        answer = self.connection(self.anyone()).call(FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]))
        # Brokers before 3.0 take one key per request (KIP-699).
        coordinator = answer.coordinators[0] if answer.coordinators else answer
        if coordinator.error_code in RETRIABLE:
            raise ConnectionError(f"the coordinator is not available: {name_of(coordinator.error_code)}")
        if coordinator.error_code:
            raise BrokerRefused(f"looking for the coordinator of {key!r}", coordinator.error_code)
        self._coordinators[kind, key] = (coordinator.host, coordinator.port)
        return self._coordinators[kind, key]
