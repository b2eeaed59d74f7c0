"""Runs the transaction coordinator: one shard for each partition of ``__transaction_state``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.counters import Counters
from ottla.broker.env import Env
from ottla.broker.gate import Gate
from ottla.broker.interception import DecisionDelayed, Interception, Point, Reached
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.markers import MarkerSender, MarkerTransport, reached
from ottla.broker.partitions import Partitions
from ottla.broker.runtime import Runtime, coordinator_partition
from ottla.broker.stepping import Stepping
from ottla.broker.transaction_history import UNASKED_OUTCOMES, Kind, TransactionListener, of_transaction
from ottla.coordinator.cluster import ClusterState
from ottla.coordinator.invariants import check_transactions
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.coordinator.transaction.effects import CountDecision, SendMarkers
from ottla.coordinator.transaction.metadata import TXN_KEY_VERSION, TxnMetadata
from ottla.coordinator.transaction.requests import Ended, Initialised, NewProducerId, ProducerIdAndEpoch, TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.log import Log
from ottla.storage.steps import Steps

RETRY_MS = 1_000
IDS_AT_ONCE = 1_000

log = structlog.get_logger("transactions")


class Transactions:
    """The transaction coordinator of this broker: commands by transactional id. Each command is one synchronous function call."""

    def __init__(
        self,
        *,
        env: Env,
        stepping: Stepping,
        lifecycle: Lifecycle,
        settings: Settings,
        counters: Counters,
        gate: Gate,
        partitions: Partitions,
        cluster_state: ClusterState,
        new_producer_id: NewProducerId,
        transport: MarkerTransport,
        interception: Interception | None = None,
        listener: TransactionListener | None = None,
    ) -> None:
        """``transport`` carries markers to the brokers that lead the partitions. ``interception`` may stop a transaction, and
        ``listener`` learns of decisions and of how they are carried out."""
        self._env = env
        self._stepping = stepping
        self._lifecycle = lifecycle
        self._counters = counters
        self._gate = gate
        self._partitions = partitions
        self._cluster_state = cluster_state
        self._new_producer_id = new_producer_id
        self._interception = interception
        self._listener = listener
        self._markers = MarkerSender(
            env=env,
            stepping=stepping,
            lifecycle=lifecycle,
            cluster_state=cluster_state,
            transport=transport,
            is_served=lambda shard: self.runtime_of(shard) is not None,
            on_written=self._markers_written,
            interception=interception,
            listener=listener,
        )
        self._shards: dict[int, tuple[TransactionShard, Runtime]] = {}
        self.load_ms: list[float] = []
        # How many completions could not be logged and are about to be tried again.
        self.delayed = 0
        # The ids whose time-out could not be logged, with the time of the next attempt in ms.
        self._retry_after_ms: dict[str, int] = {}
        self._config = TxnConfig(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            two_phase_commit=settings.transaction_two_phase_commit_enable,
        )

    def elected(self, index: int, leader_epoch: int) -> None:
        """Replay a partition that this broker leads from now on, unless it is empty. Implements `local_partitions.Coordinator`."""
        self._shards.pop(index, None)
        partition = self._partitions.find(TRANSACTION_TOPIC, index)
        if partition is not None and partition.log.log_end_offset:
            # The error of a partition that goes offline here is logged already. Requests for its ids are refused.
            with suppress(KafkaError):
                self._open(index)

    def resigned(self, index: int) -> None:
        self._shards.pop(index, None)

    def resume(self) -> None:
        """Send the markers of transactions that were decided before the last stop, without waiting for a client (rule CRD-01).

        The markers wait until the decisions are durable. Clients may connect before that; the markers of their new decisions wait
        for the records of those decisions.
        """
        decided = [(shard, metadata) for shard in self.shards() for metadata in shard.prepared()]
        self._gate.effect(lambda: self._resume(decided))

    def _resume(self, decided: list[tuple[TransactionShard, TxnMetadata]]) -> None:
        for shard, metadata in decided:
            if self.runtime_of(shard) is None:
                continue
            log.info("transaction_resumed", transactional_id=metadata.transactional_id, state=metadata.state.label)
            self._send_markers(shard, metadata)

    def _open(self, index: int) -> tuple[TransactionShard, Runtime]:
        partition = coordinator_partition(self._partitions, TRANSACTION_TOPIC, index)
        shard = TransactionShard(index, self._config, self._cluster_state.transaction_version, partition.log.leader_epoch)

        def replay(record: LogRecord, offset: int, producer_id: int) -> None:
            shard.replay(record)

        def carry_out(effect: Effect) -> None:
            match effect:
                case SendMarkers(transactional_id=transactional_id):
                    self._drive(shard, partition.log, transactional_id)
                case CountDecision(transactional_id=transactional_id, outcome=outcome, open_ms=open_ms):
                    self._counters.transaction_ended(outcome, open_ms)
                    if self._listener is not None and outcome in UNASKED_OUTCOMES:
                        metadata = shard.ids[transactional_id]
                        self._listener.happened(of_transaction(Kind.DECIDED, metadata, outcome, self._env.now_ms()))
                case _:
                    shard.apply(effect)

        runtime = Runtime(self._env, partition, replay, self._stepping, carry_out, lambda: check_transactions(shard))
        began_ms = self._env.monotonic_ms()
        runtime.load(replaced=(TXN_KEY_VERSION,), start_over=shard.clear)
        self.load_ms.append(self._env.monotonic_ms() - began_ms)
        self._shards[index] = (shard, runtime)
        return shard, runtime

    def topic_deleted(self, topic: str) -> None:
        """Drop all shards where ``__transaction_state`` itself was deleted."""
        if topic == TRANSACTION_TOPIC:
            self._shards.clear()
            self._markers.forget()
            self._retry_after_ms.clear()

    def runtime_of(self, shard: TransactionShard) -> Runtime | None:
        """The runtime of a shard, to be asked for after each wait; None where the log is offline or the topic was deleted."""
        opened = self._shards.get(shard.partition)
        if opened is None or opened[0] is not shard or opened[1].partition.log.is_offline:
            return None
        return opened[1]

    def set_version(self, transaction_version: int) -> None:
        """Use another finalized level of ``transaction.version`` from now on."""
        for shard, _ in self._shards.values():
            shard.transaction_version = transaction_version

    def partition_of(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` for a transactional id.

        Raises NOT_COORDINATOR while the topic does not exist. FindCoordinator creates it, as in Kafka.
        """
        topic = self._cluster_state.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            raise KafkaError(Code.NOT_COORDINATOR)
        return partition_for(transactional_id, topic.partition_count)

    def _shard(self, transactional_id: str) -> tuple[TransactionShard, Runtime]:
        index = self.partition_of(transactional_id)
        opened = self._shards.get(index)
        if opened is not None and opened[1].partition.log.is_offline:
            # No record can be written any more, so the shard's state in memory must not be used either.
            del self._shards[index]
            opened = None
        return opened or self._open(index)

    def is_synced(self, transactional_id: str) -> bool:
        """Whether every record of a transactional id is as durable as promised."""
        return self._gate.is_synced(self._shard(transactional_id)[1].partition.log)

    def shards(self) -> list[TransactionShard]:
        return [shard for shard, _ in self._shards.values()]

    def shard_of(self, transactional_id: str) -> TransactionShard:
        return self._shard(transactional_id)[0]

    def owed_partitions(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """The partitions of a transaction; of a decided transaction only the partitions whose marker is not written yet."""
        return self._markers.owed(metadata) if metadata.state in PREPARED else metadata.partitions

    # commands

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        *,
        two_phase_commit: bool,
        keep_prepared: bool,
    ) -> ProducerIdAndEpoch:
        """Give a producer its id and epoch. Raises the errors of `TransactionShard.init_producer_id`, and `DecisionDelayed`.

        Raises CONCURRENT_TRANSACTIONS while an earlier transaction of the id is being aborted or completed.
        """
        shard, runtime = self._shard(transactional_id)
        result: Result[Initialised] = shard.init_producer_id(
            transactional_id,
            timeout_ms,
            expected,
            self._env.steady_ms(),
            self._new_producer_id,
            two_phase_commit=two_phase_commit,
            keep_prepared=keep_prepared,
        )
        self._check_decision(shard, transactional_id, result)
        answer = runtime.execute(result)
        if answer.aborting:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        return answer.identity

    def add_partitions(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Collection[TopicPartition], client_version: int
    ) -> bool:
        """Add partitions to a transaction; returns whether that needed a record, because one of them was not part of it yet."""
        shard, runtime = self._shard(transactional_id)
        result = shard.add_partitions(transactional_id, identity, partitions, self._env.steady_ms(), client_version)
        runtime.execute(result)
        return bool(result.records)

    def verify(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Code]:
        return self._shard(transactional_id)[0].verify_partitions(transactional_id, identity, partitions)

    def end(self, transactional_id: str, identity: ProducerIdAndEpoch, *, commit: bool, client_version: int) -> ProducerIdAndEpoch:
        """Commit or abort; returns the producer id and epoch for the client's next transaction.

        Raises the errors of `TransactionShard.end_txn`, and `DecisionDelayed` where an interception delays the decision.
        """
        shard, runtime = self._shard(transactional_id)
        result: Result[Ended] = shard.end_txn(
            transactional_id,
            identity,
            commit=commit,
            client_version=client_version,
            now_ms=self._env.steady_ms(),
            new_producer_id=self._new_producer_id,
        )
        self._check_decision(shard, transactional_id, result, commit=commit)
        answer = runtime.execute(result)
        if answer.refused is not Code.NONE:
            raise KafkaError(answer.refused)
        return answer.identity

    def _check_decision(self, shard: TransactionShard, transactional_id: str, result: Result[Any], *, commit: bool = False) -> None:
        """Ask the interception before a Prepare record is logged.

        Raises its `KafkaError`, or `DecisionDelayed` where the decision must wait.
        """
        interception = self._interception
        if interception is None or Point.BEFORE_PREPARE not in interception.watched_points:
            return
        if not any(isinstance(effect, SendMarkers) for effect in result.effects):
            return
        metadata = shard.ids[transactional_id]
        latch = interception.reached(
            Reached(Point.BEFORE_PREPARE, transactional_id, metadata.producer_id, metadata.producer_epoch, commit)
        )
        if latch is not None:
            raise DecisionDelayed(latch)

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

    def _drive(self, shard: TransactionShard, partition_log: Log, transactional_id: str) -> None:
        """Send the markers of a decided transaction after its Prepare record is durable: a marker must never be on the disk before.

        The outcome is final here. So an error with a marker is retried, and the client does not get it.
        """

        def decided() -> None:
            runtime = self.runtime_of(shard)
            if runtime is None or runtime.partition.log.is_offline:
                return
            metadata = shard.ids[transactional_id]
            if not self._is_held(Point.AFTER_PREPARE, metadata, lambda: self._send_markers_again(shard, metadata)):
                self._send_markers(shard, metadata)

        self._gate.effect_behind(partition_log, partition_log.log_end_offset, decided)

    def _send_markers(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Send the markers.

        After an unexpected exception try again, so that a bug with one id does not leave its markers unsent.
        """
        try:
            self._markers.drive(shard, metadata)
        except Exception:
            log.exception("markers_failed", transactional_id=metadata.transactional_id)
            self._lifecycle.unexpected_errors += 1
            self._env.call_later(RETRY_MS, lambda: self._send_markers_again(shard, metadata))

    def _send_markers_again(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        is_open = shard.ids.get(metadata.transactional_id) is metadata and metadata.state in PREPARED
        if is_open and self.runtime_of(shard) is not None and not self._lifecycle.is_stopping:
            self._send_markers(shard, metadata)

    def _markers_written(self, shard: TransactionShard, transactional_id: str) -> None:
        """Complete a transaction after its markers are durable: the Complete record must never be on the disk before them."""
        metadata = shard.ids[transactional_id]
        self._gate.effect(lambda: self._complete(shard, metadata))

    def _complete(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Log the Complete record. Where the log refuses the record, try again later."""
        transactional_id = metadata.transactional_id
        runtime = self.runtime_of(shard)
        if runtime is None or shard.ids.get(transactional_id) is not metadata or self._lifecycle.is_stopping:
            return
        assert metadata.state in PREPARED, f"{transactional_id} is to be completed in {metadata.state.label}"
        assert not self._markers.is_owing(transactional_id), f"{transactional_id} is to be completed and owes markers"
        try:
            if self._is_held(Point.BEFORE_COMPLETE, metadata, lambda: self._complete(shard, metadata)):
                return
            runtime.execute(shard.complete(transactional_id, self._env.steady_ms()))
        except KafkaError as error:
            log.error("completion_delayed", transactional_id=transactional_id, error=str(error))
            self.delayed += 1
            self._env.call_later(RETRY_MS, lambda: self._complete_again(shard, metadata))

    def _complete_again(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        self.delayed -= 1
        self._complete(shard, metadata)

    def has_ended(self, transactional_id: str) -> bool:
        """Whether everything that `end` began is done, so that the client may be answered at once.

        False while the markers of many partitions are being written, and with ``ottla.durability=power``.
        """
        return self._gate.is_always_open and not self._markers.is_sending(transactional_id)

    def when_ended(self, transactional_id: str, then: Callable[[bool], None]) -> None:
        """Call ``then`` after everything that `end` began is done and durable: first the decision, then its markers.

        The client's next request then finds the transaction completed. ``then(False)`` means that the writes may be lost.
        """

        def decided(is_durable: bool) -> None:
            if is_durable:
                self._markers.when_sent(transactional_id, lambda: self._gate.answer(then))
            else:
                then(False)

        self._gate.answer(decided)

    # time

    def abort_timed_out(self) -> Steps[None]:
        now_ms = self._env.steady_ms()
        if self._retry_after_ms:
            # Forget ids whose producer has ended the transaction by itself since.
            unfinished = {m.transactional_id for shard in self.shards() for m in shard.unfinished()}
            self._retry_after_ms = {i: at for i, at in self._retry_after_ms.items() if i in unfinished}
        for shard, runtime in list(self._shards.values()):
            for transactional_id in shard.timed_out(now_ms):
                if self.runtime_of(shard) is None:
                    break
                if shard.is_timed_out(transactional_id, now_ms) and self._retry_after_ms.get(transactional_id, 0) <= now_ms:
                    self._abort_timed_out(shard, runtime, transactional_id, now_ms)
                    yield None

    def _abort_timed_out(self, shard: TransactionShard, runtime: Runtime, transactional_id: str, now_ms: int) -> None:
        """Abort one timed-out transaction. Where the log refuses the record, try again after `RETRY_MS`."""
        try:
            result = shard.abort_timed_out(transactional_id, now_ms, self._new_producer_id)
            self._check_decision(shard, transactional_id, result)
            runtime.execute(result)
        except KafkaError as error:
            if transactional_id not in self._retry_after_ms:
                log.error("time_out_delayed", transactional_id=transactional_id, error=str(error))
            self._retry_after_ms[transactional_id] = now_ms + RETRY_MS
            return
        self._retry_after_ms.pop(transactional_id, None)
        log.info("transaction_timed_out", transactional_id=transactional_id)

    def expire_ids(self) -> Steps[None]:
        now_ms = self._env.steady_ms()
        for shard, runtime in list(self._shards.values()):
            for tombstones in shard.expire_ids(now_ms, IDS_AT_ONCE, runtime.partition.log.config.max_message_bytes // 2):
                if self.runtime_of(shard) is None:
                    break
                try:
                    runtime.execute(tombstones)
                except KafkaError as error:
                    log.warning("ids_not_expired", partition=shard.partition, error=str(error))
                yield None
