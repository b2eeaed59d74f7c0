"""Finds the broker for a request, keeps a connection to each broker, and retries requests until the response is final.

Leaders, coordinators and the controller are looked up for each attempt, because they may move.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.addresses import Address, bootstrap_addresses, joined_address
from ottla.arguments import BadArgument
from ottla.client.errors import ClientError, KafkaAnswered, TimedOut, UnknownTopic, Unreachable, check
from ottla.client.real_time import monotonic_s
from ottla.client.wire.connection import CLIENT_ID, BrokerConnection
from ottla.client.wire.transport import Connect, SocketTransport
from ottla.protocol.errors import Code
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.protocol.remedies import RETRIABLE

if TYPE_CHECKING:
    from ottla.client.security.client_config import Connecting

TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
"""Longest pause between two attempts, in seconds. Each pause is twice the previous one."""
GROUP, TRANSACTION = 0, 1
"""Coordinator types (FindCoordinator's key types)."""
NO_NODE: Final = -1

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class BrokerNode:
    """A broker of the cluster, as Metadata describes it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return self.host, self.port


class BrokerConnections:
    """Keeps a connection to each broker that a request was sent to. ``clock`` returns seconds, and ``pause`` sleeps for seconds.

    ``connecting`` has the settings of TLS and SASL. ``oldest`` has minimum request versions by API name. ``longest_pause_s`` limits
    the pause between two attempts. With ``waits`` connecting is retried until the timeout even if no broker has responded yet.

    Raises `ClientError` if ``bootstrap`` is not a list of addresses.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = TIMEOUT_S,
        client_id: str = CLIENT_ID,
        connect: Connect | None = None,
        connecting: Connecting | None = None,
        oldest: Mapping[str, int] = {},
        longest_pause_s: float = LONGEST_PAUSE_S,
        waits: bool = False,
        clock: Callable[[], float] = monotonic_s,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            self._bootstrap = bootstrap_addresses(bootstrap)
        except BadArgument as error:
            raise ClientError(str(error)) from None
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._client_id = client_id
        self._connect = connect or functools.partial(SocketTransport, connecting=connecting)
        self.connecting = connecting
        self._oldest = oldest
        self._longest_pause_s = longest_pause_s
        self._waits = waits
        self._clock = clock
        self._pause = pause
        self._connections: dict[Address, BrokerConnection] = {}
        self._coordinators: dict[tuple[int, str], BrokerNode] = {}
        """Coordinators by coordinator type and key; cleared when a request fails."""
        self._leaders: dict[str, dict[int, BrokerNode]] = {}
        """The last results of `leader_nodes`, by topic."""
        self._has_answered = False
        self._end_s = math.inf
        """The end of the time in which `until_final` sends requests; see `within`."""

    @contextmanager
    def within(self, limit_s: float, request_s: float) -> Iterator[None]:
        """Limit the time of all requests in the ``with`` block to ``limit_s``, and the timeout of each to ``request_s``. Requests
        after ``limit_s`` raise `TimedOut`; the last one may still take its timeout. Connections keep their timeouts, so those of
        the block are not shared with requests outside of it."""
        self.close()
        timeout_s, self.timeout_s = self.timeout_s, min(self.timeout_s, request_s)
        self._end_s = self._clock() + limit_s
        try:
            yield
        finally:
            self.timeout_s, self._end_s = timeout_s, math.inf
            self.close()

    def close(self) -> None:
        """Close all connections. The next request opens a connection again."""
        self._coordinators.clear()
        for address in list(self._connections):
            self._drop(address)

    # sending requests

    def ask(self, connection: BrokerConnection, request: Any, at_most: int | None = None) -> Any:
        """Send a request to a broker and return the response. Raises OSError when the connection breaks."""
        try:
            answer = connection.call(request, at_most)
        except (OSError, ClientError):
            # Close the connection: a late response would be read as the response to the next request.
            self._drop(connection.address)
            raise
        self._has_answered = True
        return answer

    def ask_until_final(
        self,
        where: Callable[[], BrokerConnection],
        request: Any,
        code_of: Callable[[Any], int],
        what: str,
    ) -> Any:
        """Send a request until the response has no retriable error (see `until_final`). Raises `KafkaAnswered` for an error code.
        ``where`` is called for each attempt, because leaders and coordinators move."""

        def attempt() -> Any:
            answer = self.ask(where(), request)
            check(what, code_of(answer))
            return answer

        return self.until_final(what, attempt)

    def until_final(self, what: str, attempt: Callable[[], T], also: Iterable[Code] = ()) -> T:
        """Call ``attempt`` until it succeeds or the timeout passes. Retriable error codes and those in ``also`` are retried. Failed
        connections are retried if a broker has responded before, or with ``waits``. Raises the last error, and for connections
        `Unreachable` or `TimedOut`.
        """
        passing = RETRIABLE | {int(code) for code in also}
        deadline, pause_s = min(self._clock() + self.timeout_s, self._end_s), FIRST_PAUSE_S
        if self._clock() >= self._end_s:
            raise TimedOut(f"{what}: no time is left for the request")
        while True:
            try:
                return attempt()
            except UnknownTopic:
                raise
            except KafkaAnswered as refused:
                if refused.number not in passing or self._clock() >= deadline:
                    raise
            except TimeoutError:
                if not self._waits or self._clock() >= deadline:
                    raise TimedOut(f"{what}: no answer within {self.timeout_s:g} s") from None
            except OSError as error:
                if not (self._has_answered or self._waits) or self._clock() >= deadline:
                    reason = error.strerror or str(error)
                    raise Unreachable(f"{what}: {self._where(error)} does not answer ({reason}){self._hint()}") from None
            self._coordinators.clear()
            self._pause(max(0.0, min(pause_s, deadline - self._clock())))
            pause_s = min(2 * pause_s, self._longest_pause_s)

    def of_all(
        self, what: str, ask: Callable[[BrokerNode, BrokerConnection], list[T]], silent: list[ClientError] | None = None
    ) -> list[T]:
        """Call ``ask`` for each broker in turn, with retries as in `until_final`, and join the results.

        Raises `Unreachable` or `TimedOut` for a broker that does not respond. If the list ``silent`` is given, these errors are
        appended to it instead of raised, except in a cluster of one broker.
        """
        given: list[T] = []
        nodes = self.nodes()
        for node in nodes:

            def attempt(node: BrokerNode = node) -> list[T]:
                return ask(node, self.node(node))

            try:
                given += self.until_final(f"{what} of broker {node.node_id}", attempt)
            except (TimedOut, Unreachable) as error:
                if silent is None or len(nodes) == 1:
                    raise
                silent.append(error)
        return given

    def _where(self, error: OSError) -> str:
        return f"broker {error.filename}" if error.filename else self.bootstrap

    def _hint(self) -> str:
        return "" if self._has_answered else "; start a broker there (ottla serve), or give another address"

    # choosing a broker

    def anyone(self) -> BrokerConnection:
        """Return a connection to any broker. Raises OSError if no bootstrap address accepts connections."""
        for connection in self._connections.values():
            return connection
        last: OSError | None = None
        for _ in range(len(self._bootstrap)):
            try:
                return self._connected(self._bootstrap[0])
            except OSError as error:
                # Try this address last from now on, because connecting to a dead broker may take long.
                self._bootstrap.append(self._bootstrap.pop(0))
                last = error
        assert last is not None
        # All addresses failed, so the error names no single address.
        raise OSError(last.errno, last.strerror or str(last))

    def node(self, node: BrokerNode) -> BrokerConnection:
        """Return a connection to a broker. An OSError names the broker's advertised address, which may be unreachable for this
        client."""
        try:
            return self._connected(node.address)
        except OSError as error:
            where = f"{node.node_id}, which the cluster says is at {joined_address(node.address)} (advertised.listeners),"
            raise OSError(error.errno, error.strerror or str(error), where) from None

    def controller(self) -> BrokerConnection:
        """Return a connection to the controller that Metadata names, else to any broker: in KRaft brokers forward requests to the
        controller."""
        metadata = self.metadata([])
        node = nodes_of(metadata).get(metadata.controller_id)
        return self.anyone() if node is None else self.node(node)

    def leader(self, topic: str, index: int) -> BrokerConnection:
        """Return a connection to a partition's leader. Raises `UnknownTopic`, and `KafkaAnswered` for a partition without a
        leader."""
        return self.leaders(topic, [index])[index]

    def leaders(
        self, topic: str, indexes: Iterable[int] | None = None, *, skips_missing: bool = False
    ) -> dict[int, BrokerConnection]:
        """Return connections to the leaders of all partitions or of ``indexes``, by partition. Raises the errors of `leader`; with
        ``skips_missing`` partitions that do not exist are omitted."""
        return {index: self.node(node) for index, node in self._leading(topic, indexes, skips_missing=skips_missing).items()}

    def leader_nodes(self, topic: str) -> dict[int, BrokerNode]:
        """Return the leaders of all partitions without connecting to them. Retries like `until_final`; raises the errors of
        `leader`."""
        self._leaders[topic] = self.until_final(f"looking for topic {topic!r}", lambda: self._leading(topic))
        return self._leaders[topic]

    def known_leader_nodes(self, topic: str, partition: int) -> dict[int, BrokerNode]:
        """Return the last result of `leader_nodes` if it contains the partition, else call `leader_nodes`."""
        known = self._leaders.get(topic, {})
        return known if partition in known else self.leader_nodes(topic)

    def _leading(self, topic: str, indexes: Iterable[int] | None = None, *, skips_missing: bool = False) -> dict[int, BrokerNode]:
        metadata = self.metadata([topic])
        nodes = nodes_of(metadata)
        partitions = {p.partition_index: p for p in self.topic_of(metadata, topic).partitions}
        leaders = {}
        for index in sorted(partitions) if indexes is None else indexes:
            if index not in partitions:
                if skips_missing:
                    continue
                message = f"the topic has {len(partitions)}, counted from 0"
                raise UnknownTopic(f"unknown partition {index} of topic {topic!r}", Code.UNKNOWN_TOPIC_OR_PARTITION, message)
            check(f"partition {topic}-{index}", partitions[index].error_code)
            node = nodes.get(partitions[index].leader_id)
            if node is None:
                raise KafkaAnswered(f"partition {topic}-{index}", Code.LEADER_NOT_AVAILABLE)
            leaders[index] = node
        return leaders

    def coordinator(self, kind: int, key: str) -> BrokerConnection:
        """Return a connection to the coordinator of a group or transactional id. Raises OSError, and `KafkaAnswered` while no
        coordinator is available."""
        node = self._coordinators.get((kind, key))
        if node is None:
            node = self._coordinators[kind, key] = self._coordinator(kind, key)
        return self.node(node)

    def coordinator_id(self, kind: int, key: str) -> int:
        """Look up the node id of a coordinator. Raises the errors of `coordinator`."""
        return self._coordinator(kind, key).node_id

    def _coordinator(self, kind: int, key: str) -> BrokerNode:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = self.ask(self.anyone(), request)
        # Before version 4 FindCoordinator looks up one key, and its response has no list of coordinators (KIP-699).
        coordinator = answer.coordinators[0] if answer.coordinators else answer
        check(f"the coordinator of {key!r}", coordinator.error_code, coordinator.error_message)
        return BrokerNode(node_id=coordinator.node_id, host=coordinator.host, port=coordinator.port)

    # requesting metadata

    def metadata(self, topics: list[str] | None) -> MetadataResponse:
        """Request the metadata of ``topics``, or of all topics for None. Raises OSError, and `KafkaAnswered` for the response's
        top-level error code."""
        named = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
        answer: MetadataResponse = self.ask(self.anyone(), MetadataRequest(topics=named, allow_auto_topic_creation=False))
        check("the cluster's metadata", answer.error_code)
        return answer

    def nodes(self) -> list[BrokerNode]:
        """All brokers, ordered by id."""
        metadata = self.until_final("asking for the brokers", lambda: self.metadata([]))
        return [node for _, node in sorted(nodes_of(metadata).items())]

    def features(self) -> dict[str, int]:
        """Return the finalized features of the cluster and their levels."""
        return self.until_final("asking for features", lambda: self.anyone().features)

    def cluster_id(self) -> str | None:
        """Return the cluster id; None for brokers that are too old to have one."""
        return self.until_final("asking for the cluster's id", lambda: self.metadata([])).cluster_id

    def topic_of(self, metadata: MetadataResponse, topic: str) -> MetadataResponseTopic:
        """Find a topic in ``metadata``. Raises `UnknownTopic`, and `KafkaAnswered` for any other error code of the topic."""
        described = next((t for t in metadata.topics if t.name == topic), None)
        if described is None or described.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            message = f"create it first: ottla topic create {quote(topic)}"
            raise UnknownTopic(f"unknown topic {topic!r} at {self.bootstrap}", Code.UNKNOWN_TOPIC_OR_PARTITION, message)
        # Old versions of Metadata have LEADER_NOT_AVAILABLE as the topic's error code, newer versions as the partition's.
        if described.error_code != Code.LEADER_NOT_AVAILABLE:
            check(f"topic {topic!r}", described.error_code)
        return described

    def partitions(self, topic: str) -> list[int]:
        """Return the indexes of a topic's partitions. Raises `UnknownTopic`."""
        metadata = self.until_final(f"looking for topic {topic!r}", lambda: self.metadata([topic]))
        return sorted(p.partition_index for p in self.topic_of(metadata, topic).partitions)

    # opening and closing connections

    def _connected(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            transport = self._connect(address, self.timeout_s)
            try:
                connection = BrokerConnection(address, transport, self._client_id, connecting=self.connecting, oldest=self._oldest)
            except BaseException:
                transport.close()
                raise
            self._connections[address] = connection
        return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


def led_partitions(metadata: MetadataResponse) -> dict[BrokerNode, dict[str, list[int]]]:
    """Return the partitions of ``metadata`` as indexes by leader and topic. Partitions without a leader are omitted."""
    nodes = nodes_of(metadata)
    led: dict[BrokerNode, dict[str, list[int]]] = {}
    for topic in metadata.topics:
        for partition in topic.partitions:
            if partition.leader_id in nodes:
                of_leader = led.setdefault(nodes[partition.leader_id], {})
                of_leader.setdefault(topic.name or "", []).append(partition.partition_index)
    return led


def nodes_of(metadata: MetadataResponse) -> dict[int, BrokerNode]:
    return {b.node_id: BrokerNode(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack) for b in metadata.brokers}
