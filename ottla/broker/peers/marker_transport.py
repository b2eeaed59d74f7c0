"""Sends markers to the leaders of their partitions (TransactionMarkerChannelManager).

One request per broker is in flight at a time. Markers that accumulate meanwhile are sent together in the next request. The caller
retries markers that were not written; for each attempt the partition's leader is looked up again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import msgspec
import structlog

from ottla.broker.coordinators.markers import MarkerTransport
from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.peers.leaders import Peers, leader_of
from ottla.broker.peers.requests import PeerFailure
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import NO_LEADER
from ottla.protocol.errors import Code
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.topic_partition import TopicPartition

MARKERS_PER_REQUEST = 1_000
"""Maximum number of markers in one request to a broker, unless a single transaction has more markers for that broker."""
TIMEOUT_MS = 10_000
"""Timeout in ms of a request to another broker, which responds when all in-sync replicas have the markers. A frozen broker loses
its session in about this time, and its partitions get another leader."""
LEAST_VERSION = 1
MAX_WAITING_MARKERS = 100_000
"""Maximum number of transactions whose markers wait for one broker. Further markers are treated as timed out, and are retried."""

OnResponse = Callable[[WriteTxnMarkersResponse], None]

log = structlog.get_logger("markers")


class _Part(msgspec.Struct, frozen=True, eq=False):
    """The markers of one transaction for one broker."""

    marker: WritableTxnMarker
    on_response: OnResponse

    @property
    def count(self) -> int:
        return sum(len(topic.partition_indexes) for topic in self.marker.topics)


class LeaderTransport:
    """`MarkerTransport` to all brokers of a cluster. This broker's own partitions go through ``local``."""

    def __init__(self, clock: Clock, *, broker_id: int, state: ClusterState, peers: Peers, local: MarkerTransport) -> None:
        self._broker_id = broker_id
        self._state = state
        self._peers = peers
        self._local = local
        self._waiting: dict[int, deque[_Part]] = {}
        self._under_way: set[int] = set()
        self._errors = RepeatedErrors(clock, log)

    def write_txn_markers(self, request: WriteTxnMarkersRequest, on_response: OnResponse) -> None:
        """Send each marker to the leaders of its partitions (`markers.MarkerTransport`)."""
        if self._state.is_alone:
            self._local.write_txn_markers(request, on_response)
            return
        for marker in request.markers:
            for leader, topics in self._by_leader(marker).items():
                part = msgspec.structs.replace(marker, topics=topics)
                if leader == self._broker_id:
                    self._local.write_txn_markers(WriteTxnMarkersRequest([part]), on_response)
                elif leader == NO_LEADER:
                    # As in Kafka, a partition without a leader is not treated as deleted: its leader may have died just now.
                    on_response(_answer(part, {}, Code.NOT_LEADER_OR_FOLLOWER))
                elif len(waiting := self._waiting.setdefault(leader, deque())) >= MAX_WAITING_MARKERS:
                    on_response(_answer(part, {}, Code.REQUEST_TIMED_OUT))
                else:
                    waiting.append(_Part(part, on_response))
                    self._send(leader)

    def _by_leader(self, marker: WritableTxnMarker) -> dict[int, list[WritableTxnMarkerTopic]]:
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                leader = leader_of(self._state, topic.name, index)
                by_leader.setdefault(leader, {}).setdefault(topic.name, []).append(index)
        return {
            leader: [WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
            for leader, topics in by_leader.items()
        }

    def _send(self, broker_id: int) -> None:
        """Send the waiting markers of a broker, unless a request to it is in flight."""
        waiting = self._waiting.get(broker_id)
        if not waiting or broker_id in self._under_way:
            return
        parts = [waiting.popleft()]
        count = parts[0].count
        while waiting and count + waiting[0].count <= MARKERS_PER_REQUEST:
            parts.append(waiting.popleft())
            count += parts[-1].count
        if not waiting:
            del self._waiting[broker_id]
        peer = self._peers.peer(broker_id)
        if peer is None:
            self._answered(broker_id, parts, "the broker is not registered, or is fenced")
            return

        def answered(answer: Any) -> None:
            self._under_way.discard(broker_id)
            self._answered(broker_id, parts, answer.reason if isinstance(answer, PeerFailure) else answer)

        self._under_way.add(broker_id)
        request = WriteTxnMarkersRequest([part.marker for part in parts])
        try:
            peer.send(request, answered, timeout_ms=TIMEOUT_MS, least_version=LEAST_VERSION)
        except Exception:
            # The exception is a bug. The caller retries these markers, and later markers for this broker are still sent.
            self._under_way.discard(broker_id)
            self._answered(broker_id, parts, "the request could not be sent")
            raise

    def _answered(self, broker_id: int, parts: list[_Part], answer: WriteTxnMarkersResponse | str) -> None:
        codes: dict[int, dict[TopicPartition, int]] = {}
        if isinstance(answer, str):
            self._errors.failed("markers_not_sent", answer, key=broker_id, level="info", broker_id=broker_id)
        else:
            self._errors.succeeded(broker_id)
            for result in answer.markers:
                by_partition = codes.setdefault(result.producer_id, {})
                for topic in result.topics:
                    for partition in topic.partitions:
                        by_partition[topic.name, partition.partition_index] = partition.error_code
        # ExitStack calls all callbacks, even if one raises an exception. `_send` is registered first, so that it is called last.
        with ExitStack() as callbacks:
            callbacks.callback(self._send, broker_id)
            for part in reversed(parts):
                # A marker without a result may have been written or not. A repeated marker does no harm.
                answer_of_part = _answer(part.marker, codes.get(part.marker.producer_id, {}), Code.REQUEST_TIMED_OUT)
                callbacks.callback(part.on_response, answer_of_part)


def _answer(marker: WritableTxnMarker, codes: Mapping[TopicPartition, int], otherwise: Code) -> WriteTxnMarkersResponse:
    """The response for the markers of one transaction. Partitions that ``codes`` lacks get the error ``otherwise``."""
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes.get((topic.name, index), otherwise))
                for index in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return WriteTxnMarkersResponse([WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)])
