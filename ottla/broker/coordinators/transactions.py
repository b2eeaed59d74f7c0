"""Runs the transaction coordinator: one shard for each partition of ``__transaction_state``."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from ottla.broker.coordinators.completion import RETRY_MS, Completions, log_delay
from ottla.broker.coordinators.lost_additions import LostAdditions
from ottla.broker.coordinators.markers import MarkerTransport
from ottla.broker.coordinators.shards import Opening, Shards, batch_bytes
from ottla.broker.hooks.interception import DecisionDelayed, Point, Reached
from ottla.broker.hooks.transaction_history import UNASKED_OUTCOMES, Kind, of_transaction
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.partitions.runtime import Replaying, Runtime
from ottla.coordinator.invariants import check_transactions
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.coordinator.transaction.effects import CountDecision, SendMarkers
from ottla.coordinator.transaction.metadata import TXN_KEY_VERSION, TxnMetadata
from ottla.coordinator.transaction.requests import Ended, Initialised, NewProducerId, ProducerIdAndEpoch, TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.steps import next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TV2
from ottla.storage.log import Log

IDS_AT_ONCE = 1_000

log = structlog.get_logger("transactions")


class Transactions:
    """The transaction coordinator of this broker, with its commands on transactional ids.

    Each command but `end` is one synchronous call. `end` decides in one synchronous step, and then waits.
    """

    def __init__(
        self,
        kernel: Kernel,
        partitions: Partitions,
        cluster_state: ClusterState,
        new_producer_id: NewProducerId,
        transport: MarkerTransport,
    ) -> None:
        """``transport`` carries markers to partition leaders.

        The kernel's ``interception`` may stop a transaction, for a test; its ``listener`` is notified of decisions and of refused
        markers.
        """
        settings = kernel.config.settings
        self._env = kernel.env
        self._errors = RepeatedErrors(kernel.env, log)
        self._stepping = kernel.stepping
        self._lifecycle = kernel.lifecycle
        self._counters = kernel.counters
        self._barrier = kernel.barrier
        self._cluster_state = cluster_state
        self._new_producer_id = new_producer_id
        self._interception = kernel.interception
        self._listener = kernel.listener
        self._completions = Completions(kernel, cluster_state, transport, self.runtime_of)
        self._shards = Shards(
            TRANSACTION_TOPIC,
            kernel,
            partitions,
            cluster_state,
            open=self._open,
            loaded=self._completions.resume,
            dropped=self._dropped,
        )
        self._lost_additions = LostAdditions(kernel.barrier, kernel.directory)
        # Transactional ids whose abort after the timeout could not be logged, with the time in ms of the next attempt.
        self._retry_after_ms: dict[str, int] = {}
        self._config = TxnConfig(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            two_phase_commit=settings.transaction_two_phase_commit_enable,
        )

    def _open(self, partition: Partition, leader_epoch: int) -> Opening[TransactionShard]:
        version = self._cluster_state.transaction_version
        shard = TransactionShard(partition.log.partition, self._config, version, leader_epoch)

        def replay(record: LogRecord, offset: int, producer_id: int) -> None:
            shard.replay(record)

        carry_out = partial(self._carry_out, shard, partition.log)
        runtime = Runtime(self._env, partition, replay, self._stepping, carry_out, lambda: check_transactions(shard))
        replaying = Replaying(replaced=(TXN_KEY_VERSION,), start_over=shard.clear)
        return Opening(shard=shard, runtime=runtime, replaying=replaying)

    # leader elections

    def resume(self) -> None:
        """Complete the transactions that were decided before the last stop, without waiting for a client (rule CRD-01).

        First, partitions are added to their transactions again if a power cut removed the records that added them. Markers are sent
        once the decisions are durable; clients may connect before that.
        """
        if self._cluster_state.is_alone:
            self._lost_additions.find(self.shards())
        self._add_again()
        for shard in self.shards():
            self._completions.resume(shard, except_ids=self._lost_additions)
        self._barrier.effect(self._lost_additions.note_synced)

    def _add_again(self) -> None:
        """Add lost partitions again to their transactions. If the log refuses a record, `abort_timed_out` or the next command
        for the transactional id retries."""
        for transactional_id in self._lost_additions.transactional_ids():
            with suppress(KafkaError):
                self._shard(transactional_id)

    def elected(self, index: int, leader_epoch: int) -> None:
        """Load partition ``index`` of ``__transaction_state``, which this broker now leads with this coordinator epoch."""
        self._shards.elected(index, leader_epoch)

    def resigned(self, index: int) -> None:
        """Drop the shard of a partition that another broker now leads. That broker completes its transactions."""
        self._shards.resigned(index)

    def topic_deleted(self, topic: str) -> None:
        """Drop all shards if ``__transaction_state`` itself was deleted."""
        if topic == TRANSACTION_TOPIC:
            self._shards.topic_deleted()
            self._lost_additions.forget()

    def _dropped(self, shard: TransactionShard, runtime: Runtime) -> None:
        self._completions.forget(shard)
        for transactional_id in shard.ids:
            self._retry_after_ms.pop(transactional_id, None)

    # finding shards

    def runtime_of(self, shard: TransactionShard) -> Runtime | None:
        """The runtime of a shard; None if its log is offline or it was dropped, which may happen during each wait."""
        return self._shards.runtime_of(shard)

    def set_version(self, transaction_version: int) -> None:
        """Use another finalized level of ``transaction.version`` from now on."""
        for shard in self.shards():
            shard.transaction_version = transaction_version

    def partition_of(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` for a transactional id. Raises NOT_COORDINATOR if the topic does not exist."""
        return partition_for(transactional_id, self._shards.partition_count())

    def _shard(self, transactional_id: str) -> tuple[TransactionShard, Runtime]:
        """Return the shard of a transactional id and its runtime, after it has added the id's lost partitions again.

        This may append records. Call it before each use of an id: until then the id's lost partitions are missing.
        Raises `KafkaError`.
        """
        opened = self._shards.get(self.partition_of(transactional_id))
        if transactional_id in self._lost_additions:
            self._lost_additions.add_again(transactional_id, *opened, self._env.steady_ms())
        return opened

    def is_synced(self, transactional_id: str) -> bool:
        """Whether every record of a transactional id is as durable as promised."""
        return self._barrier.is_synced(self._shard(transactional_id)[1].partition.log)

    def may_be_added_again(self, transactional_id: str) -> bool:
        """Whether a restarted broker could repeat the addition of a partition whose record a power cut removes (`LostAdditions`).

        False in a cluster, where other brokers may lead the coordinator or the partition after the power cut.
        """
        return self._cluster_state.is_alone and self._lost_additions.may_be_added_again(transactional_id)

    def shards(self) -> list[TransactionShard]:
        return self._shards.shards()

    @property
    def is_loading(self) -> bool:
        """Whether transactional ids are being loaded. If so, a list of them would be incomplete."""
        return self._shards.is_loading

    @property
    def delayed(self) -> int:
        """Number of completions that are waiting for a retry, because the log has refused their Complete record."""
        return self._completions.delayed

    @property
    def load_ms(self) -> list[float]:
        """Durations in ms of the latest loads of shards."""
        return self._shards.load_ms

    def shard_of(self, transactional_id: str) -> TransactionShard:
        return self._shard(transactional_id)[0]

    def pending_partitions(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """The partitions of a transaction. For a decided transaction, only those whose marker is missing."""
        return self._completions.pending_partitions(metadata) if metadata.state in PREPARED else metadata.partitions

    # commands on transactional ids

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
        self._apply_fault(shard, transactional_id, result, commit=False)
        answer = runtime.execute(result)
        if answer.aborting:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        return answer.identity

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_transaction_version: int,
    ) -> bool:
        """Add partitions to a transaction. Returns whether any partition was new to the transaction, and was therefore logged."""
        shard, runtime = self._shard(transactional_id)
        before = shard.ids.get(transactional_id)
        result = shard.add_partitions(transactional_id, identity, partitions, self._env.steady_ms(), client_transaction_version)
        runtime.execute(result)
        if client_transaction_version >= TV2 and before is not None:
            self._lost_additions.note_addition(before)
        return bool(result.records)

    def verify(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Code]:
        return self._shard(transactional_id)[0].verify_partitions(transactional_id, identity, partitions)

    async def end(
        self, transactional_id: str, identity: ProducerIdAndEpoch, *, commit: bool, client_transaction_version: int
    ) -> ProducerIdAndEpoch:
        """Commit or abort a transaction, and wait for its markers (`Completions.once_markers_written`).

        Returns the producer id and epoch for the client's next transaction. Raises the errors of `TransactionShard.end_txn`, once
        the state that they reveal is committed and durable. Raises NOT_COORDINATOR if this state, or the decision, may be lost, for
        example because another broker leads the coordinator's partition (TransactionStateManager.appendTransactionToLog).
        """
        try:
            next_identity, decided_on = await self._decide(
                transactional_id, identity, commit=commit, client_transaction_version=client_transaction_version
            )
        except KafkaError as error:
            if not await self._is_state_kept(transactional_id):
                raise KafkaError(Code.NOT_COORDINATOR) from error
            raise
        # The decision's effect SendMarkers has started `Completions._complete`, which waits at the barrier too.
        if not await self._barrier.before_response(decided_on, decided_on.log_end_offset):
            raise KafkaError(Code.NOT_COORDINATOR)
        if not await self._completions.once_markers_written(transactional_id):
            raise KafkaError(Code.NOT_COORDINATOR)
        return next_identity

    async def _decide(
        self, transactional_id: str, identity: ProducerIdAndEpoch, *, commit: bool, client_transaction_version: int
    ) -> tuple[ProducerIdAndEpoch, Log]:
        """Log the decision; returns the identity for the next transaction, and the coordinator's log."""
        while True:
            shard, runtime = self._shard(transactional_id)
            result: Result[Ended] = shard.end_txn(
                transactional_id,
                identity,
                commit=commit,
                client_transaction_version=client_transaction_version,
                now_ms=self._env.steady_ms(),
                new_producer_id=self._new_producer_id,
            )
            try:
                self._apply_fault(shard, transactional_id, result, commit=commit)
            except DecisionDelayed as delayed:
                # A test's fault delays the decision. After the fault is removed, handle the command as if it had just arrived.
                await delayed.latch.opened()
                if self._lifecycle.is_stopping:
                    raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE) from None
                continue
            ended = runtime.execute(result)
            # The shard returns a refusal that has effects, because an exception would lose the effects.
            if ended.refused is not Code.NONE:
                raise KafkaError(ended.refused)
            return ended.identity, runtime.partition.log

    def _carry_out(self, shard: TransactionShard, partition_log: Log, effect: Effect) -> None:
        """Carry out an effect of a command whose records were just appended and replayed."""
        match effect:
            case SendMarkers(transactional_id=transactional_id):
                self._completions.begin(shard, partition_log, transactional_id)
            case CountDecision(transactional_id=transactional_id, outcome=outcome, open_ms=open_ms):
                self._counters.transaction_ended(outcome, open_ms)
                if self._listener is not None and outcome in UNASKED_OUTCOMES:
                    metadata = shard.ids[transactional_id]
                    self._listener.happened(of_transaction(Kind.DECIDED, metadata, outcome, self._env.now_ms()))
            case _:
                shard.apply(effect)

    async def _is_state_kept(self, transactional_id: str) -> bool:
        """Wait until the state of a transactional id is committed and durable. Returns False if the state may be lost."""
        try:
            partition_log = self._shard(transactional_id)[1].partition.log
        except KafkaError:
            # Without the coordinator's log, the error can only reveal what other logs have.
            return await self._barrier.durable_before_response()
        return await self._barrier.before_response(partition_log, partition_log.log_end_offset)

    def _apply_fault(self, shard: TransactionShard, transactional_id: str, result: Result[Any], *, commit: bool) -> None:
        """Apply a test's fault before a Prepare record is logged.

        Raises the fault's `KafkaError`, or `DecisionDelayed` if the decision must wait. `end` waits; other commands let this error
        pass, and their clients or the periodic task retry.
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

    # periodic tasks

    async def abort_timed_out(self) -> None:
        now_ms = self._env.steady_ms()
        self._add_again()
        if self._retry_after_ms:
            # Forget transactions that their producer has ended since the last attempt.
            unfinished = {m.transactional_id for shard in self.shards() for m in shard.unfinished()}
            self._retry_after_ms = {i: at for i, at in self._retry_after_ms.items() if i in unfinished}
        for shard, runtime in self._shards.items():
            for transactional_id in shard.timed_out(now_ms):
                if self.runtime_of(shard) is None:
                    break
                is_due = self._retry_after_ms.get(transactional_id, 0) <= now_ms and transactional_id not in self._lost_additions
                if is_due and shard.is_timed_out(transactional_id, now_ms):
                    self._abort_timed_out(shard, runtime, transactional_id, now_ms)
                    await next_turn()

    def _abort_timed_out(self, shard: TransactionShard, runtime: Runtime, transactional_id: str, now_ms: int) -> None:
        try:
            result = shard.abort_timed_out(transactional_id, now_ms, self._new_producer_id)
            self._apply_fault(shard, transactional_id, result, commit=False)
            runtime.execute(result)
        except KafkaError as error:
            log_delay(self._errors, "transaction_timeout_delayed", transactional_id, error)
            self._retry_after_ms[transactional_id] = now_ms + RETRY_MS
            return
        self._retry_after_ms.pop(transactional_id, None)
        log.info("transaction_timed_out", transactional_id=transactional_id)

    async def expire_ids(self) -> None:
        now_ms = self._env.steady_ms()
        with self._errors.round("expiry"):
            for shard, runtime in self._shards.items():
                for tombstones in shard.expire_ids(now_ms, IDS_AT_ONCE, batch_bytes(runtime)):
                    if self.runtime_of(shard) is None:
                        break
                    try:
                        runtime.execute(tombstones)
                    except KafkaError as error:
                        code, where = error.code.name, shard.partition
                        self._errors.failed("transactional_ids_not_expired", code, key="expiry", partition=where, error=str(error))
                    await next_turn()
