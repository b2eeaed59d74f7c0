"""Completes a decided transaction: sends its markers, then logs the Complete record (TransactionCoordinator, KIP-98).

Once the Prepare record is in the log, the outcome is final. Every later failure is therefore retried, and not reported to clients.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import structlog

from ottla.broker.coordinators.markers import MarkerSender, MarkerTransport, reached
from ottla.broker.hooks.interception import Point
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.loop.wakeup import Wakeup, sleep
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.runtime import Runtime
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.log import Log

RETRY_MS = 1_000
"""Time in ms until a record that the coordinator's log has refused is tried again."""
MARKERS_AWAITED_MS = 1_000
"""Maximum time in ms that an EndTxn response waits until markers are written. Kafka does not wait for them."""

log = structlog.get_logger("transactions")


def log_delay(errors: RepeatedErrors, event: str, transactional_id: str, error: KafkaError) -> None:
    """Log that a record of a transaction could not be logged, and is tried again after `RETRY_MS`.

    A lack of in-sync replicas is temporary, so it is only a warning; failures of the log are errors.
    """
    level = "warning" if error.code is Code.COORDINATOR_NOT_AVAILABLE else "error"
    errors.failed(event, error.code.name, level=level, transactional_id=transactional_id, error=str(error))


class Completions:
    """Completes a coordinator's decided transactions. ``runtime_of`` returns a shard's runtime; None if the shard was dropped."""

    def __init__(
        self,
        kernel: Kernel,
        cluster_state: ClusterState,
        transport: MarkerTransport,
        runtime_of: Callable[[TransactionShard], Runtime | None],
    ) -> None:
        self._env = kernel.env
        self._stepping = kernel.stepping
        self._errors = RepeatedErrors(kernel.env, log)
        self._lifecycle = kernel.lifecycle
        self._barrier = kernel.barrier
        self._runtime_of = runtime_of
        self._interception = kernel.interception
        self._markers = MarkerSender(kernel, cluster_state, transport, lambda shard: runtime_of(shard) is not None)
        self.delayed = 0
        """Number of completions that are waiting for a retry, because the log has refused their Complete record."""

    def pending_partitions(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """The pending markers of a decided transaction: its partitions whose marker is not written yet."""
        return self._markers.pending_partitions(metadata)

    def forget(self, shard: TransactionShard) -> None:
        """Forget a dropped shard's transactions: the new leader of its partition completes them."""
        self._markers.forget(shard)

    def resume(self, shard: TransactionShard, except_ids: Container[str] = ()) -> None:
        """Complete transactions that this or another broker decided before the shard was loaded."""
        runtime = self._runtime_of(shard)
        if runtime is not None:
            for metadata in list(shard.prepared()):
                if metadata.transactional_id not in except_ids:
                    self.begin(shard, runtime.partition.log, metadata.transactional_id, is_resumed=True)

    def begin(self, shard: TransactionShard, partition_log: Log, transactional_id: str, *, is_resumed: bool = False) -> None:
        """Complete a transaction after its Prepare record was appended.

        ``is_resumed`` means that the record was appended before this broker loaded the coordinator's log.
        """
        self._stepping.start(self._complete(shard, partition_log, transactional_id, is_resumed=is_resumed))

    async def _complete(self, shard: TransactionShard, partition_log: Log, transactional_id: str, *, is_resumed: bool) -> None:
        """Write the markers of a decided transaction, then log its Complete record.

        The markers must reach the disk after the Prepare record and before the Complete record.
        """
        if not await self._barrier.before_effect(partition_log, partition_log.log_end_offset):
            return
        metadata = shard.ids.get(transactional_id)
        if is_resumed and metadata is not None:
            log.info("transaction_resumed", transactional_id=transactional_id, state=metadata.state.label)
        while metadata is not None and self._is_pending(shard, metadata):
            try:
                # Faults at AFTER_PREPARE do not stop a transaction that is resumed after its shard was loaded.
                was_stopped = not is_resumed and await self._was_stopped(Point.AFTER_PREPARE, metadata)
                if was_stopped and not self._is_pending(shard, metadata):
                    return
                if await self._markers.write(shard, metadata):
                    await self._log_complete(shard, metadata)
                return
            except Exception:
                # Retry after an unexpected exception: the transaction must not stay without its markers.
                self._lifecycle.bug("markers_failed", transactional_id=transactional_id)
            await sleep(self._env, RETRY_MS)

    def _is_pending(self, shard: TransactionShard, metadata: TxnMetadata) -> bool:
        is_decided = shard.ids.get(metadata.transactional_id) is metadata and metadata.state in PREPARED
        return is_decided and self._runtime_of(shard) is not None and not self._lifecycle.is_stopping

    async def _was_stopped(self, point: Point, metadata: TxnMetadata) -> bool:
        """Wait while a test's fault stops the transaction at ``point``. Returns whether a fault stopped it.

        Raises the `KafkaError` of a fault that has an error code.
        """
        interception = self._interception
        if interception is None or point not in interception.watched_points:
            return False
        was_stopped = False
        while (latch := interception.reached(reached(point, metadata))) is not None:
            was_stopped = True
            await latch.opened()
        return was_stopped

    async def _log_complete(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        transactional_id = metadata.transactional_id
        if not await self._barrier.durable_before_effect():
            return
        while self._is_pending(shard, metadata):
            assert not self._markers.is_waiting_for_markers(transactional_id), f"{transactional_id} completes with pending markers"
            try:
                if await self._was_stopped(Point.BEFORE_COMPLETE, metadata) and not self._is_pending(shard, metadata):
                    return
                runtime = self._runtime_of(shard)
                if runtime is not None:
                    runtime.execute(shard.complete(transactional_id, self._env.steady_ms()))
                return
            except KafkaError as error:
                log_delay(self._errors, "completion_delayed", transactional_id, error)
            self.delayed += 1
            await sleep(self._env, RETRY_MS)
            self.delayed -= 1

    async def once_markers_written(self, transactional_id: str) -> bool:
        """Wait until the markers of a decided transaction are written and durable, at most `MARKERS_AWAITED_MS`.

        So the client's next request finds the transaction completed, unless a marker takes longer, a partition refuses it for good,
        or a test's fault delays it. Returns False if the writes may be lost.
        """
        if self._markers.is_waiting_for_markers(transactional_id):
            wakeup = Wakeup(self._env, MARKERS_AWAITED_MS)
            self._markers.when_written(transactional_id, wakeup.wake)
            try:
                await wakeup.wait()
            finally:
                wakeup.stop()
        return await self._barrier.durable_before_response()
