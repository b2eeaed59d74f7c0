"""Completes a decided transaction: sends its markers, then logs the Complete record (TransactionCoordinator, KIP-98).

The outcome is final once the Prepare record is in the log. So every failure here is retried, and no client gets its error.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import structlog

from ottla.broker.coordinators.markers import MarkerSender, MarkerTransport, reached
from ottla.broker.hooks.interception import Interception, Point
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.loop.env import Env
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.runtime import Runtime
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.log import Log

RETRY_MS = 1_000
MARKERS_AWAITED_MS = 1_000
"""How long the response to EndTxn waits for markers that are being written. Kafka does not wait for markers at all."""

log = structlog.get_logger("transactions")


class SecondPhase:
    """Completes the decided transactions of a coordinator. ``runtime_of`` returns the runtime of a shard, None after the shard was
    dropped."""

    def __init__(
        self,
        *,
        env: Env,
        stepping: Stepping,
        lifecycle: Lifecycle,
        barrier: Barrier,
        cluster_state: ClusterState,
        transport: MarkerTransport,
        runtime_of: Callable[[TransactionShard], Runtime | None],
        interception: Interception | None,
        listener: TransactionListener | None,
    ) -> None:
        self._env = env
        self._errors = RepeatedErrors(env, log)
        self._lifecycle = lifecycle
        self._barrier = barrier
        self._runtime_of = runtime_of
        self._interception = interception
        self._markers = MarkerSender(
            env=env,
            stepping=stepping,
            lifecycle=lifecycle,
            cluster_state=cluster_state,
            transport=transport,
            is_served=lambda shard: runtime_of(shard) is not None,
            on_written=self._markers_written,
            interception=interception,
            listener=listener,
        )
        self.delayed = 0
        """Number of completions that the log refused and that will be retried."""

    def owed(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """The pending markers of a decided transaction: its partitions whose marker is not written yet."""
        return self._markers.owed(metadata)

    def forget(self, shard: TransactionShard) -> None:
        """Forget a dropped shard. The new leader of its partition completes the shard's transactions."""
        self._markers.forget(shard)

    def resume(self, shard: TransactionShard, except_ids: Container[str] = ()) -> None:
        """Send the markers of transactions that were decided before the shard was loaded, by this broker or another coordinator."""
        decided = [metadata for metadata in shard.prepared() if metadata.transactional_id not in except_ids]
        runtime = self._runtime_of(shard)
        if runtime is None or not decided:
            return

        def decisions_are_durable() -> None:
            for metadata in decided:
                if self._runtime_of(shard) is None:
                    return
                log.info("transaction_resumed", transactional_id=metadata.transactional_id, state=metadata.state.label)
                self._send_markers(shard, metadata)

        self._barrier.effect_after(runtime.partition.log, runtime.partition.log.log_end_offset, decisions_are_durable)

    def _is_held(self, point: Point, metadata: TxnMetadata, go_on: Callable[[], None]) -> bool:
        """Whether the interception stops a decided transaction at a point. If so, ``go_on`` is called when the transaction may
        continue.

        Raises the `KafkaError` with which the interception refuses the step.
        """
        interception = self._interception
        if interception is None or point not in interception.watched_points:
            return False
        latch = interception.reached(reached(point, metadata))
        if latch is not None:
            latch.when_open(go_on)
        return latch is not None

    def begin(self, shard: TransactionShard, partition_log: Log, transactional_id: str) -> None:
        """Send the markers of a decided transaction after its Prepare record is durable: no marker may be on disk before that
        record."""

        def decided() -> None:
            runtime = self._runtime_of(shard)
            if runtime is None or runtime.partition.log.is_offline:
                return
            metadata = shard.ids[transactional_id]
            if not self._is_held(Point.AFTER_PREPARE, metadata, lambda: self._send_markers_again(shard, metadata)):
                self._send_markers(shard, metadata)

        self._barrier.effect_after(partition_log, partition_log.log_end_offset, decided)

    def _send_markers(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Send the markers. An unexpected exception is retried, so that a bug with one id does not leave its markers unsent."""
        try:
            self._markers.drive(shard, metadata)
        except Exception:
            self._lifecycle.bug("markers_failed", transactional_id=metadata.transactional_id)
            self._env.call_later(RETRY_MS, lambda: self._send_markers_again(shard, metadata))

    def _send_markers_again(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        is_open = shard.ids.get(metadata.transactional_id) is metadata and metadata.state in PREPARED
        if is_open and self._runtime_of(shard) is not None and not self._lifecycle.is_stopping:
            self._send_markers(shard, metadata)

    def _markers_written(self, shard: TransactionShard, transactional_id: str) -> None:
        """Complete a transaction after its markers are durable: the Complete record must never be on disk before them."""
        metadata = shard.ids[transactional_id]
        self._barrier.effect(lambda: self._complete(shard, metadata))

    def _complete(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Log the Complete record. If the log refuses the record, retry later."""
        transactional_id = metadata.transactional_id
        runtime = self._runtime_of(shard)
        if runtime is None or shard.ids.get(transactional_id) is not metadata or self._lifecycle.is_stopping:
            return
        assert metadata.state in PREPARED, f"{transactional_id} is to be completed in {metadata.state.label}"
        assert not self._markers.is_owing(transactional_id), f"{transactional_id} is to be completed and owes markers"
        try:
            if self._is_held(Point.BEFORE_COMPLETE, metadata, lambda: self._complete(shard, metadata)):
                return
            runtime.execute(shard.complete(transactional_id, self._env.steady_ms()))
        except KafkaError as error:
            # Too few in-sync replicas is a temporary state of the cluster; any other error comes from the log.
            level = "warning" if error.code is Code.COORDINATOR_NOT_AVAILABLE else "error"
            reason = error.code.name
            self._errors.failed("completion_delayed", reason, level=level, transactional_id=transactional_id, error=str(error))
            self.delayed += 1
            self._env.call_later(RETRY_MS, lambda: self._complete_again(shard, metadata))

    def _complete_again(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        self.delayed -= 1
        self._complete(shard, metadata)

    def has_ended(self, transactional_id: str) -> bool:
        """Whether all work after a decision is done, so that the response can be sent at once.

        False while the markers of many partitions are being written, if a decision may have to be committed first, and with
        ``ottla.durability=power``.
        """
        barrier = self._barrier
        return barrier.never_waits and not barrier.is_replicated and not self._markers.is_sending(transactional_id)

    def when_ended(self, partition_log: Log, transactional_id: str, then: Callable[[bool], None]) -> None:
        """Call ``then`` when all work after a decision is done and durable: first the decision, then its markers.

        The client's next request then finds the transaction completed, unless its markers take longer than `MARKERS_AWAITED_MS`.
        The outcome is certain without the markers. ``then(False)`` means that the decision may be lost.
        """

        def decided(is_durable: bool) -> None:
            if not is_durable:
                then(False)
                return
            has_answered = False

            def sent() -> None:
                nonlocal has_answered
                if not has_answered:
                    has_answered = True
                    self._barrier.answer(then)

            self._markers.when_sent(transactional_id, sent)
            if not has_answered:
                self._env.call_later(MARKERS_AWAITED_MS, sent)

        self._barrier.answer_after(partition_log, partition_log.log_end_offset, decided)
