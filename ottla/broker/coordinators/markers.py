"""Sends the markers of decided transactions until each partition has its marker (TransactionMarkerChannelManager).

A transport carries WriteTxnMarkers requests to brokers. Local partitions use the same path, through `coordinators.LocalTransport`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec
import structlog

from ottla.broker.hooks.interception import Interception, Latch, Point, Reached
from ottla.broker.hooks.transaction_history import Kind, TransactionListener, of_transaction
from ottla.broker.partitions.kernel import Kernel
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError, known_code
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.steps import Pause, in_thread
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TxnState

RETRY_MS = 100
RETRY_AFTER_BUG_MS = 1_000
"""Delay in ms before pending markers are sent again after an unexpected exception: long, because the exception may recur."""
MARKERS_AT_ONCE = 40
"""Number of a transaction's markers above which the markers are sent in steps."""
RETRIABLE_MARKER_CODES = {
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.REQUEST_TIMED_OUT,
    Code.KAFKA_STORAGE_ERROR,
}
"""Errors after which a marker is sent again. Any other error is final for the marker's partition.

If another coordinator has replaced this one, the error is TRANSACTION_COORDINATOR_FENCED, or INVALID_PRODUCER_EPOCH after the
producer has begun its next transaction (TransactionMarkerRequestCompletionHandler).
"""

log = structlog.get_logger("markers")


class MarkerTransport(Protocol):
    """Carries the markers of one transaction to the brokers that lead the partitions.

    ``on_response`` is called for each broker with the results of its partitions, possibly before the method returns.
    """

    def write_txn_markers(
        self, request: WriteTxnMarkersRequest, on_response: Callable[[WriteTxnMarkersResponse], None]
    ) -> None: ...


class _PendingMarkers:
    """The partitions of one decided transaction that have no marker yet.

    The pause ``written`` ends with True when every partition has its marker, with False when the shard is dropped. ``is_retry_due``
    means that, after a bug, a retry of all pending markers is scheduled. ``is_blocked`` means that a marker is not written soon: a
    partition has refused it for good, a test's fault delays it, or a bug has occurred. The ``waiting`` functions are called when
    markers are written or blocked, or the shard is dropped.
    """

    __slots__ = ("is_blocked", "is_retry_due", "partitions", "waiting", "written")

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = partitions
        self.written: Pause[bool] | None = None
        self.is_retry_due = False
        self.is_blocked = False
        self.waiting: tuple[Callable[[], None], ...] = ()

    def end(self, is_written: bool) -> None:
        if self.written is not None:
            self.written.end(is_written)
        self._ended()

    def block(self) -> None:
        self.is_blocked = True
        self._ended()

    def _ended(self) -> None:
        waiting, self.waiting = self.waiting, ()
        for then in waiting:
            then()


class MarkerSender:
    """Sends the markers of decided transactions, and repeats markers that fail with a retriable error."""

    def __init__(
        self,
        kernel: Kernel,
        cluster_state: ClusterState,
        transport: MarkerTransport,
        is_served: Callable[[TransactionShard], bool],
    ) -> None:
        """``is_served`` returns whether a shard is still in service.

        The kernel's ``interception`` may stop a transaction between two markers, for a test; its ``listener`` is notified of
        refused markers.
        """
        self._env = kernel.env
        self._stepping = kernel.stepping
        self._lifecycle = kernel.lifecycle
        self._cluster_state = cluster_state
        self._transport = transport
        self._is_served = is_served
        self._interception = kernel.interception
        self._listener = kernel.listener
        self._pending: dict[str, _PendingMarkers] = {}

    def pending_partitions(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """The pending markers of a decided transaction; all its partitions if this broker is not sending its markers."""
        pending = self._pending.get(metadata.transactional_id)
        return metadata.partitions if pending is None else pending.partitions

    def is_waiting_for_markers(self, transactional_id: str) -> bool:
        """Whether a decided transaction has pending markers."""
        return transactional_id in self._pending

    def forget(self, shard: TransactionShard) -> None:
        """Forget the transactions of a shard that was dropped."""
        for metadata in shard.prepared():
            pending = self._pending.pop(metadata.transactional_id, None)
            if pending is not None:
                pending.end(False)

    def when_written(self, transactional_id: str, then: Callable[[], None]) -> None:
        """Call ``then`` when a transaction has no pending markers, at once if it has none now.

        Also called when a marker is blocked (`_PendingMarkers`) or the shard is dropped.
        """
        pending = self._pending.get(transactional_id)
        if pending is None or pending.is_blocked:
            then()
        else:
            pending.waiting += (then,)

    async def write(self, shard: TransactionShard, metadata: TxnMetadata) -> bool:
        """Write the markers of a decided transaction, with retries. Returns False if the shard is dropped: another broker then
        writes the markers."""
        assert metadata.state in PREPARED, f"markers of {metadata.transactional_id}, which is {metadata.state.label}"
        pending = self._pending[metadata.transactional_id] = _PendingMarkers(metadata.partitions)
        self._send(shard, metadata, metadata.partitions)
        if not pending.partitions:
            return True
        pending.written = Pause(is_parked=True)
        return await pending.written

    def _send(self, shard: TransactionShard, metadata: TxnMetadata, partitions: frozenset[TopicPartition]) -> None:
        try:
            if len(partitions) <= MARKERS_AT_ONCE or not self._lifecycle.is_serving:
                self._send_to(shard, metadata, *self._addressed(shard, metadata, partitions))
            else:
                self._stepping.run(self._send_many(shard, metadata, partitions))
        except Exception:
            self._failed(shard, metadata)

    async def _send_many(self, shard: TransactionShard, metadata: TxnMetadata, partitions: frozenset[TopicPartition]) -> None:
        addressed: list[tuple[set[TopicPartition], WritableTxnMarker]] = []
        try:
            await in_thread(lambda: addressed.append(self._addressed(shard, metadata, partitions)))
            if self._is_current(shard, metadata):
                self._send_to(shard, metadata, *addressed[0])
        except Exception:
            self._failed(shard, metadata)

    def _failed(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Schedule a retry of all pending markers after an unexpected exception. Called in an ``except`` block.

        Without a retry the transaction would stay decided until a restart. Sending a marker twice is harmless.
        """
        self._lifecycle.bug("markers_failed", transactional_id=metadata.transactional_id)
        pending = self._pending.get(metadata.transactional_id)
        if pending is None or pending.is_retry_due:
            return
        pending.is_retry_due = True

        def retry() -> None:
            pending.is_retry_due = False
            if self._pending.get(metadata.transactional_id) is pending:
                self._retry(shard, metadata, pending.partitions)

        self._env.call_later(RETRY_AFTER_BUG_MS, retry)
        pending.block()

    def _addressed(
        self, shard: TransactionShard, metadata: TxnMetadata, partitions: frozenset[TopicPartition]
    ) -> tuple[set[TopicPartition], WritableTxnMarker]:
        """Return the partitions that do not exist, and the marker for the other partitions. A partition does not exist if its topic
        was deleted, or has fewer partitions than AddOffsetsToTxn expected."""
        known = self._cluster_state.topics
        deleted = {p for p in partitions if p[0] not in known or p[1] >= known[p[0]].partition_count}
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(partitions - deleted):
            topics.setdefault(topic, []).append(index)
        marker = WritableTxnMarker(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            transaction_result=metadata.state is TxnState.PREPARE_COMMIT,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()],
            coordinator_epoch=shard.coordinator_epoch,
            transaction_version=metadata.client_transaction_version,
        )
        return deleted, marker

    def _send_to(
        self, shard: TransactionShard, metadata: TxnMetadata, deleted: set[TopicPartition], marker: WritableTxnMarker
    ) -> None:
        if deleted or not marker.topics:
            self._written(shard, metadata, deleted)
        if not marker.topics:
            return
        if self._interception is not None and not _BY_MARKER.isdisjoint(self._interception.watched_points):
            self._stepping.start(self._send_one_by_one(self._interception, shard, metadata, marker))
            return
        self._transport.write_txn_markers(
            WriteTxnMarkersRequest([marker]), lambda response: self._answered(shard, metadata, response)
        )

    async def _send_one_by_one(
        self, interception: Interception, shard: TransactionShard, metadata: TxnMetadata, marker: WritableTxnMarker
    ) -> None:
        """Send the markers of a transaction one after the other, because a test's fault may stop the transaction between two
        markers.

        A stop ends the wait of EndTxn (`_PendingMarkers.is_blocked`).
        """
        left = deque((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
        latch: Latch | None = None
        try:
            while True:
                latch = self._latch_or_refuse(interception, shard, metadata, left)
                if latch is not None or not left:
                    break
                topic, index = left.popleft()
                one = msgspec.structs.replace(marker, topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])])
                answered: Pause[WriteTxnMarkersResponse] = Pause(is_parked=True)
                self._transport.write_txn_markers(WriteTxnMarkersRequest([one]), answered.end)
                self._answered(shard, metadata, await answered)
        except Exception:
            self._failed(shard, metadata)
        if latch is not None:
            self._block(shard, metadata)
            await latch.opened()
            self._retry(shard, metadata, frozenset(left))

    def _latch_or_refuse(
        self, interception: Interception, shard: TransactionShard, metadata: TxnMetadata, left: deque[TopicPartition]
    ) -> Latch | None:
        """Drop markers from the front of ``left``, the markers to send, while a test's faults refuse them.

        Returns the latch that delays the next marker, if any.
        """
        while left:
            topic, index = left[0]
            try:
                return self._latch(interception, metadata, topic, index)
            except KafkaError as error:
                left.popleft()
                self._answered(shard, metadata, _response_of_one(metadata, topic, index, error.code))
        return None

    def _latch(self, interception: Interception, metadata: TxnMetadata, topic: str, index: int) -> Latch | None:
        markers_written = len(metadata.partitions) - len(self.pending_partitions(metadata))
        points = [Point.BETWEEN_MARKERS] if markers_written else []
        points += [Point.BEFORE_OFFSETS] if topic == OFFSETS_TOPIC else []
        for point in points:
            if point in interception.watched_points:
                at = reached(point, metadata)._replace(markers_written=markers_written, topic=topic, partition=index)
                latch = interception.reached(at)
                if latch is not None:
                    return latch
        return None

    def _answered(self, shard: TransactionShard, metadata: TxnMetadata, response: WriteTxnMarkersResponse) -> None:
        try:
            self._evaluate(shard, metadata, response)
        except Exception:
            self._failed(shard, metadata)

    def _evaluate(self, shard: TransactionShard, metadata: TxnMetadata, response: WriteTxnMarkersResponse) -> None:
        written, again = set[TopicPartition](), set[TopicPartition]()
        refused: dict[Code, list[TopicPartition]] = {}
        is_blocked = False
        for topic in response.markers[0].topics:
            for partition in topic.partitions:
                where, code = (topic.name, partition.partition_index), known_code(partition.error_code)
                if code in (Code.NONE, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT):
                    written.add(where)
                    continue
                refused.setdefault(code, []).append(where)
                if code in RETRIABLE_MARKER_CODES:
                    again.add(where)
                else:
                    # The partition refused its marker for good, by fencing or because of a bug. The marker stays pending, so the
                    # transaction is not completed without it.
                    is_late = code is Code.TRANSACTION_COORDINATOR_FENCED or (
                        code is Code.INVALID_PRODUCER_EPOCH and not self._cluster_state.is_alone
                    )
                    refused_by = log.warning if is_late else log.error
                    is_blocked = True
                    refused_by("marker_refused", transactional_id=metadata.transactional_id, topic=topic.name, code=code.name)
        if self._listener is not None and refused:
            _report_markers(self._listener, self._env.now_ms(), metadata, refused)
        if again:
            partitions = frozenset(again)
            self._env.call_later(RETRY_MS, lambda: self._retry(shard, metadata, partitions))
        self._written(shard, metadata, written)
        if is_blocked:
            self._block(shard, metadata)

    def _block(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        pending = self._pending.get(metadata.transactional_id)
        if pending is not None and self._is_current(shard, metadata):
            pending.block()

    def _written(self, shard: TransactionShard, metadata: TxnMetadata, partitions: set[TopicPartition]) -> None:
        pending = self._pending.get(metadata.transactional_id)
        if pending is None or not self._is_current(shard, metadata):
            return
        pending.partitions -= partitions
        if not pending.partitions:
            del self._pending[metadata.transactional_id]
            pending.end(True)

    def _retry(self, shard: TransactionShard, metadata: TxnMetadata, partitions: frozenset[TopicPartition]) -> None:
        if self._is_current(shard, metadata) and not self._lifecycle.is_stopping:
            self._send(shard, metadata, partitions)

    def _is_current(self, shard: TransactionShard, metadata: TxnMetadata) -> bool:
        """Whether this is still the current transaction of its transactional id.

        If not, a late response could complete the next transaction (KAFKA-16352).
        """
        if not self._is_served(shard):
            return False
        current = shard.ids.get(metadata.transactional_id)
        return (
            current is not None
            and current.state in PREPARED
            and (current.producer_id, current.producer_epoch, current.start_ms)
            == (metadata.producer_id, metadata.producer_epoch, metadata.start_ms)
        )


def _report_markers(
    listener: TransactionListener, now_ms: int, metadata: TxnMetadata, refused: Mapping[Code, Collection[TopicPartition]]
) -> None:
    outcome = "commit" if metadata.state is TxnState.PREPARE_COMMIT else "abort"
    for code, partitions in refused.items():
        listener.happened(of_transaction(Kind.MARKERS, metadata, outcome, now_ms, partitions, code))


_BY_MARKER = frozenset((Point.BETWEEN_MARKERS, Point.BEFORE_OFFSETS))
"""The points of a completion at which a test's fault may delay a single marker."""


def reached(point: Point, metadata: TxnMetadata) -> Reached:
    """Build the argument of `Interception.reached` for a transaction that has reached a point of its completion."""
    return Reached(
        point=point,
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        commit=metadata.state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT),
    )


def _response_of_one(metadata: TxnMetadata, topic: str, index: int, code: Code) -> WriteTxnMarkersResponse:
    partition = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
    result = WritableTxnMarkerTopicResult(name=topic, partitions=[partition])
    return WriteTxnMarkersResponse([WritableTxnMarkerResult(producer_id=metadata.producer_id, topics=[result])])
