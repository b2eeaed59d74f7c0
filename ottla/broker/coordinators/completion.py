"""What follows a decided transaction: its markers, and then the record that completes it (TransactionCoordinator, KIP-98).

The outcome is final once the Prepare record is in the log. So whatever fails here is tried again, and no client gets its error.
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
"""How long the answer to EndTxn waits for markers that are under way. Kafka does not wait for markers at all."""

log = structlog.get_logger("transactions")


class SecondPhase:
    """Carries decided transactions out. ``runtime_of`` gives the runtime of a shard, None where it was dropped."""

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
        """How many completions could not be logged and are about to be tried again."""

    def owed(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """The partitions of a decided transaction whose marker is not written yet."""
        return self._markers.owed(metadata)

    def forget(self, shard: TransactionShard) -> None:
        """A shard was dropped: whoever leads its partition now carries its transactions out."""
        self._markers.forget(shard)

    def resume(self, shard: TransactionShard, except_ids: Container[str] = ()) -> None:
        """Send the markers of what was decided before a shard was loaded, here or by another coordinator."""
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
        """Whether the interception stops a decided transaction at a point. If so, ``go_on`` is called when it may go on.

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
        """Send the markers of a decided transaction after its Prepare record is durable: a marker must never be on the disk before.

        The outcome is final here. So an error with a marker is retried, and the client does not get it.
        """

        def decided() -> None:
            runtime = self._runtime_of(shard)
            if runtime is None or runtime.partition.log.is_offline:
                return
            metadata = shard.ids[transactional_id]
            if not self._is_held(Point.AFTER_PREPARE, metadata, lambda: self._send_markers_again(shard, metadata)):
                self._send_markers(shard, metadata)

        self._barrier.effect_after(partition_log, partition_log.log_end_offset, decided)

    def _send_markers(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Send the markers.

        After an unexpected exception try again, so that a bug with one id does not leave its markers unsent.
        """
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
        """Complete a transaction after its markers are durable: the Complete record must never be on the disk before them."""
        metadata = shard.ids[transactional_id]
        self._barrier.effect(lambda: self._complete(shard, metadata))

    def _complete(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Log the Complete record. Where the log refuses the record, try again later."""
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
            # Too few replicas in sync is a state of the cluster, and passes; any other error is the log's.
            level = "warning" if error.code is Code.COORDINATOR_NOT_AVAILABLE else "error"
            reason = error.code.name
            self._errors.failed("completion_delayed", reason, level=level, transactional_id=transactional_id, error=str(error))
            self.delayed += 1
            self._env.call_later(RETRY_MS, lambda: self._complete_again(shard, metadata))

    def _complete_again(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        self.delayed -= 1
        self._complete(shard, metadata)

    def has_ended(self, transactional_id: str) -> bool:
        """Whether everything that a decision began is done, so that the client may be answered at once.

        False while the markers of many partitions are being written, where a decision may have to be committed first, and with
        ``ottla.durability=power``.
        """
        barrier = self._barrier
        return barrier.never_waits and not barrier.is_replicated and not self._markers.is_sending(transactional_id)

    def when_ended(self, partition_log: Log, transactional_id: str, then: Callable[[bool], None]) -> None:
        """Call ``then`` after everything that a decision began is done and durable: first the decision, then its markers.

        The client's next request then finds the transaction completed, unless its markers take longer than `MARKERS_AWAITED_MS`.
        The outcome is certain without them. ``then(False)`` means that the decision may be lost.
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
