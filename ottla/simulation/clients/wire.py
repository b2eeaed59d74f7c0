"""A client's connections: versions, timeouts, reconnects, leaders and coordinators (NetworkClient and Metadata of Kafka)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ottla.broker.loop.timed_calls import TimedCall
from ottla.protocol.codec import api, decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from ottla.simulation.client import api_key
from ottla.simulation.links import Links
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.tasks import Promise, Steps

REQUEST_TIMEOUT_MS = 3_000
CONNECT_TIMEOUT_MS = 2_000
BACKOFF_MS = (50.0, 800.0)
GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
FLEXIBLE_API_VERSIONS = 3

Address = tuple[str, int]

LOOK_UP_AGAIN = {Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE}
ASK_AGAIN = {*LOOK_UP_AGAIN, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.CONCURRENT_TRANSACTIONS, Code.KAFKA_STORAGE_ERROR}
"""Errors of a coordinator after which a client retries."""
LEADER_ELSEWHERE = {
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
    Code.LEADER_NOT_AVAILABLE,
    Code.KAFKA_STORAGE_ERROR,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
}
"""Errors after which a client requests metadata and retries (InvalidMetadataException of Kafka)."""


class Disconnected(Exception):
    """No response will arrive, because the connection is lost, or was closed after a timeout."""


class GaveUp(Exception):
    """An operation has taken too long (delivery.timeout.ms, max.block.ms)."""


@dataclass(slots=True)
class Ground:
    """State shared by all clients of a simulation."""

    scheduler: Scheduler
    links: Links
    bootstrap: Sequence[Address]
    reached: Counter[str] = field(default_factory=Counter)


class _Connection(asyncio.Protocol):
    """One connection. Requests do not wait for earlier responses; responses must arrive in the order of requests."""

    def __init__(self, ground: Ground, name: str, address: Address) -> None:
        self._ground = ground
        self._name = name
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._bytes = bytearray()
        self._correlation_id = 0
        self._waiting: dict[int, tuple[int, int, Promise, TimedCall]] = {}
        self.is_lost = False
        self.opened = Promise()
        self.versions: dict[int, int] = {}
        self._give_up = ground.scheduler.call_later(CONNECT_TIMEOUT_MS, self._not_opened)

    def _not_opened(self) -> None:
        self._ground.reached["a connection is abandoned before it opens"] += 1
        self.connection_lost(None)

    def refused(self) -> None:
        self._ground.reached["a connection is refused"] += 1
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.is_lost:
            cast(asyncio.Transport, transport).close()
            return
        self._give_up.cancel()
        self._transport = cast(asyncio.Transport, transport)
        self.opened.resolve(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._give_up.cancel()
        waiting, self._waiting = self._waiting, {}
        if waiting:
            self._ground.reached["a response is lost with its connection"] += 1
        for _, _, promise, timer in waiting.values():
            timer.cancel()
            promise.fail(Disconnected())
        self.opened.fail(Disconnected())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self.connection_lost(None)

    def _timed_out(self) -> None:
        self._ground.reached["a request timed out"] += 1
        self.close()

    def send(self, request: Any, version: int) -> Promise:
        """Send a request. Never raises: if the connection is lost the promise fails with `Disconnected`."""
        promise = Promise()
        if self.is_lost or self._transport is None:
            promise.fail(Disconnected())
            return promise
        self._correlation_id += 1
        key = api_key(request)
        timer = self._ground.scheduler.call_later(REQUEST_TIMEOUT_MS, self._timed_out)
        self._waiting[self._correlation_id] = (key, version, promise, timer)
        self._transport.write(request_frame(key, version, self._correlation_id, self._name, request))
        return promise

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4 and not self.is_lost:
            size = int.from_bytes(self._bytes[:4], "big")
            if len(self._bytes) < 4 + size:
                break
            frame = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            first = next(iter(self._waiting), None)
            correlation_id = int.from_bytes(frame[:4], "big")
            assert correlation_id == first, f"{self._name} received response {correlation_id}, expected {first}"
            key, version, promise, timer = self._waiting.pop(correlation_id)
            timer.cancel()
            promise.resolve(decode_response_frame(key, version, frame)[1])


class Client:
    """One client process: its connections, and the leaders and coordinators that it knows."""

    def __init__(self, ground: Ground, name: str, rng: random.Random) -> None:
        self.ground = ground
        self.name = name
        self.rng = rng
        self._connections: dict[Address, _Connection] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._leaders: dict[tuple[str, int], Address] = {}
        self.leader_epochs: dict[tuple[str, int], int] = {}
        """The newest leader epoch of each partition in Metadata responses. A leader of an older epoch is not used (KIP-320)."""
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.transaction_version = 0
        self.max_offset_seen: dict[tuple[str, int], int] = {}

    @property
    def now_ms(self) -> int:
        return self.ground.scheduler.now_ms

    def note(self, state: str) -> None:
        """Count a rare state that the client has reached."""
        self.ground.reached[state] += 1

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def backoff(self, attempt: int) -> float:
        return float(min(BACKOFF_MS[0] * 2**attempt, BACKOFF_MS[1]) * (0.8 + 0.4 * self.rng.random()))

    def connected(self, address: Address) -> Steps[_Connection]:
        """Return an open connection to this address. Raises `Disconnected`."""
        connection = self._connections.get(address)
        if connection is None or connection.is_lost:
            connection = self._connections[address] = _Connection(self.ground, self.name, address)
            made = connection
            self.ground.links.dial(self.name, *address, lambda: made, made.refused)
        yield connection.opened
        if not connection.versions:
            versions = ApiVersionsRequest(client_software_name="simulated", client_software_version="1")
            answer: ApiVersionsResponse = yield connection.send(versions, FLEXIBLE_API_VERSIONS)
            connection.versions = {offered.api_key: offered.max_version for offered in answer.api_keys}
            levels = {level.name: level.max_version_level for level in answer.finalized_features}
            self.transaction_version = levels.get("transaction.version", 0)
        return connection

    def send(self, address: Address, request: Any, at_most: int | None = None) -> Steps[Promise]:
        """Send a request, and return the promise of its response. Raises `Disconnected` without a connection."""
        connection = yield from self.connected(address)
        key = api_key(request)
        version = min(api(key).max_version, connection.versions[key])
        return connection.send(request, version if at_most is None else min(version, at_most))

    def ask(self, address: Address, request: Any, at_most: int | None = None) -> Steps[Any]:
        """Send a request, and wait for its response. Raises `Disconnected`."""
        promise = yield from self.send(address, request, at_most)
        return (yield promise)

    # finding leaders and coordinators

    def any_broker(self) -> Address:
        return self.rng.choice(self.ground.bootstrap)

    def forget_leader(self, where: tuple[str, int]) -> None:
        self._leaders.pop(where, None)

    def leader(self, where: tuple[str, int]) -> Steps[Address]:
        """Return the address of the partition's leader. Raises `Disconnected` if the metadata has no leader."""
        if where not in self._leaders:
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=where[0])], allow_auto_topic_creation=False)
            answer = yield from self.ask(self.any_broker(), wanted)
            brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
            for topic in answer.topics:
                if topic.error_code == Code.NONE:
                    self.topic_ids[topic.name] = topic.topic_id
                    self.topic_names[topic.topic_id] = topic.name
                for partition in topic.partitions:
                    self._learn(topic.name, partition, brokers)
            if where not in self._leaders:
                raise Disconnected
        return self._leaders[where]

    def _learn(self, topic: str, partition: MetadataResponsePartition, brokers: dict[int, Address]) -> None:
        where = (topic, partition.partition_index)
        known = self.leader_epochs.get(where, -1)
        if partition.leader_epoch < known:
            self.note("a client receives a replaced leader")
        elif partition.leader_id in brokers:
            if partition.leader_epoch > known >= 0:
                self.note("a client follows a partition to its next leader")
            self.leader_epochs[where] = partition.leader_epoch
            self._leaders[where] = brokers[partition.leader_id]

    def _coordinator(self, kind: int, key: str) -> Steps[Address]:
        if (kind, key) not in self._coordinators:
            answer = yield from self.ask(self.any_broker(), FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
            (coordinator,) = answer.coordinators
            if coordinator.error_code:
                raise Disconnected
            self._coordinators[kind, key] = (coordinator.host, coordinator.port)
        return self._coordinators[kind, key]

    def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Any,
        codes: Callable[[Any], Sequence[int]],
        *,
        patience_ms: float,
        at_most: int | None = None,
    ) -> Steps[tuple[Any, int]]:
        """Send the request, and repeat it after retriable errors. Returns response and number of retries. Raises `GaveUp`."""
        deadline_ms = self.now_ms + patience_ms
        asked = 0
        for attempt in range(1 << 20):
            try:
                address = yield from self._coordinator(kind, key)
                asked += 1
                answer = yield from self.ask(address, request, at_most)
            except Disconnected:
                self._coordinators.pop((kind, key), None)
            else:
                given = {Code(code) for code in codes(answer)}
                if not given & ASK_AGAIN:
                    return answer, asked - 1
                for code in given & ASK_AGAIN:
                    self.note(f"a coordinator responds with {code.name}")
                if given & LOOK_UP_AGAIN:
                    self._coordinators.pop((kind, key), None)
            if self.now_ms >= deadline_ms:
                break
            yield self.backoff(attempt)
        raise GaveUp
