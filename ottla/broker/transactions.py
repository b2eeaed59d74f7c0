"""The transaction coordinator at work: shards on the partitions of ``__transaction_state``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.counters import Counters
from ottla.broker.env import Env
from ottla.broker.gate import Gate
from ottla.broker.interception import Held, Interception, Point, Reached
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.markers import MarkerSender, Transport, reached
from ottla.broker.partitions import Partitions
from ottla.broker.runtime import Runtime
from ottla.broker.stepping import Stepping
from ottla.coordinator.cluster import ClusterState
from ottla.coordinator.invariants import check_transactions
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.coordinator.transaction.effects import CountDecision, SendMarkers
from ottla.coordinator.transaction.metadata import TXN_KEY_VERSION, TopicPartition, TxnMetadata
from ottla.coordinator.transaction.requests import Ended, Initialised, NewProducerId, ProducerIdAndEpoch, TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.storage.log import Log
from ottla.storage.steps import Steps

RETRY_MS = 1_000
IDS_AT_ONCE = 1_000

log = structlog.get_logger("transactions")


class Transactions:
    """Commands by transactional id; each is one synchronous stretch."""

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
        transport: Transport,
        interception: Interception | None = None,
    ) -> None:
        """``transport`` carries markers to the brokers that lead the partitions. ``interception`` may stop a transaction."""
        self._env = env
        self._stepping = stepping
        self._lifecycle = lifecycle
        self._counters = counters
        self._gate = gate
        self._partitions = partitions
        self._cluster_state = cluster_state
        self._new_producer_id = new_producer_id
        self._interception = interception
        self._markers = MarkerSender(
            env=env,
            stepping=stepping,
            lifecycle=lifecycle,
            cluster_state=cluster_state,
            transport=transport,
            is_served=lambda shard: self.runtime_of(shard) is not None,
            on_written=self._markers_written,
            interception=interception,
        )
        self._shards: dict[int, tuple[TransactionShard, Runtime]] = {}
        self.load_ms: list[float] = []
        # Completions that could not be logged and come again.
        self.delayed = 0
        # Ids whose time-out could not be logged, and when it is tried again.
        self._retry_after_ms: dict[str, int] = {}
        self._config = TxnConfig(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            two_phase_commit=settings.transaction_two_phase_commit_enable,
        )

    def load(self) -> None:
        """Replay every partition that holds something."""
        topic = self._cluster_state.topics.get(TRANSACTION_TOPIC)
        for index in range(topic.partition_count if topic is not None else 0):
            if self._partitions.get(TRANSACTION_TOPIC, index).log.log_end_offset:
                # One whose log goes offline by it was logged, and is refused to whoever asks for it.
                with suppress(KafkaError):
                    self._open(index)

    def resume(self) -> None:
        """Drive what was decided before the last stop, once it is on the disk; nobody needs to ask (rule CRD-01).

        Clients may come before the disk has it. What they decide then is driven behind its own record.
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
        partition = self._partitions.get(TRANSACTION_TOPIC, index)
        shard = TransactionShard(index, self._config, self._cluster_state.transaction_version, partition.log.leader_epoch)

        def replay(record: LogRecord, offset: int, producer_id: int) -> None:
            shard.replay(record)

        def carry_out(effect: Effect) -> None:
            match effect:
                case SendMarkers(transactional_id=transactional_id):
                    self._drive(shard, partition.log, transactional_id)
                case CountDecision(outcome=outcome, open_ms=open_ms):
                    self._counters.transaction_ended(outcome, open_ms)
                case _:
                    shard.apply(effect)

        runtime = Runtime(self._env, partition, replay, self._stepping, carry_out, lambda: check_transactions(shard))
        began_ms = self._env.monotonic_ms()
        runtime.load(replaced=(TXN_KEY_VERSION,), start_over=shard.clear)
        self.load_ms.append(self._env.monotonic_ms() - began_ms)
        self._shards[index] = (shard, runtime)
        return shard, runtime

    def topic_deleted(self, topic: str) -> None:
        """With the coordinators' own topic all that it held is gone."""
        if topic == TRANSACTION_TOPIC:
            self._shards.clear()
            self._markers.forget()
            self._retry_after_ms.clear()

    def runtime_of(self, shard: TransactionShard) -> Runtime | None:
        """Where a shard's records go; None where its topic was deleted, and perhaps made again, since the shard was asked for.

        Whoever goes on with a shard after a wait asks anew: what it decided is none of the new log's business.
        """
        opened = self._shards.get(shard.partition)
        return opened[1] if opened is not None and opened[0] is shard else None

    def set_version(self, transaction_version: int) -> None:
        """The finalized level has changed."""
        for shard, _ in self._shards.values():
            shard.transaction_version = transaction_version

    def partition_of(self, transactional_id: str) -> int:
        """Raises NOT_COORDINATOR until a client has asked for a coordinator: FindCoordinator makes the topic, as in Kafka."""
        topic = self._cluster_state.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            raise KafkaError(Code.NOT_COORDINATOR)
        return partition_for(transactional_id, topic.partition_count)

    def _shard(self, transactional_id: str) -> tuple[TransactionShard, Runtime]:
        index = self.partition_of(transactional_id)
        return self._shards.get(index) or self._open(index)

    def shards(self) -> list[TransactionShard]:
        return [shard for shard, _ in self._shards.values()]

    def shard_of(self, transactional_id: str) -> TransactionShard:
        return self._shard(transactional_id)[0]

    def owed_partitions(self, metadata: TxnMetadata) -> frozenset[TopicPartition]:
        """Partitions of a transaction; once it is decided, those that wait for their marker."""
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
        """Raises CONCURRENT_TRANSACTIONS while an older transaction of the id is being ended."""
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
    ) -> None:
        shard, runtime = self._shard(transactional_id)
        runtime.execute(shard.add_partitions(transactional_id, identity, partitions, self._env.steady_ms(), client_version))

    def verify(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Code]:
        return self._shard(transactional_id)[0].verify_partitions(transactional_id, identity, partitions)

    def end(self, transactional_id: str, identity: ProducerIdAndEpoch, *, commit: bool, client_version: int) -> ProducerIdAndEpoch:
        """Commit or abort; the identity with which the client goes on. Raises `Held` where that has to wait."""
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
        """Before a Prepare record is logged. Raises the `KafkaError` by which it is refused, `Held` where it has to wait."""
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
            raise Held(latch)

    def _is_held(self, point: Point, metadata: TxnMetadata, go_on: Callable[[], None]) -> bool:
        """Whether a decided transaction has to wait at a point; ``go_on`` is called then once it need not any more.

        Raises the `KafkaError` by which the step is refused.
        """
        interception = self._interception
        if interception is None or point not in interception.watched_points:
            return False
        latch = interception.reached(reached(point, metadata))
        if latch is not None:
            latch.when_open(go_on)
        return latch is not None

    def _drive(self, shard: TransactionShard, partition_log: Log, transactional_id: str) -> None:
        """From here on the outcome stands: what goes wrong with the markers is mended, not told to the client.

        A marker must never be on disk before the decision that it stands for.
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
        """A bug with one id must not leave it undriven until the next start, nor keep the others from their markers."""
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
        """All markers are written. A completion must never be on disk before the markers that it stands for."""
        metadata = shard.ids[transactional_id]
        self._gate.effect(lambda: self._complete(shard, metadata))

    def _complete(self, shard: TransactionShard, metadata: TxnMetadata) -> None:
        """Log the outcome. Where the log does not take it, it comes again."""
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
        """Whether all that `end` began is done and may be told. Markers of very many partitions are still being written, else."""
        return self._gate.is_always_open and not self._markers.is_sending(transactional_id)

    def when_ended(self, transactional_id: str, then: Callable[[bool], None]) -> None:
        """Call back once what `end` began is done and on disk: the decision, and in a second round its markers.

        Whoever asks next then finds the transaction completed. Takes whether the disk has it all.
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
            # An id whose own producer has ended the transaction meanwhile is not delayed any more.
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
        """An id whose record the log refuses comes again after a while; the others go on."""
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
