"""Verifies with the transaction coordinator that a batch is in an open transaction, before a partition's first append (KIP-890).

The tables in this module map the coordinator's errors to the errors that clients of an API get.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Protocol

from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.partitions.kernel import Kernel
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import Pause
from ottla.protocol.topic_partition import TopicPartition

PRODUCE_CODES = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.NOT_ENOUGH_REPLICAS,
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_COORDINATOR: Code.NOT_ENOUGH_REPLICAS,
    Code.NETWORK_EXCEPTION: Code.NOT_ENOUGH_REPLICAS,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}
"""The error in a Produce response, by the coordinator's error (ReplicaManager.handleProduceAppend)."""

OFFSET_COMMIT_CODES = {
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.NETWORK_EXCEPTION: Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}
"""The error in a TxnOffsetCommit response, by the coordinator's error (GroupCoordinatorService.handleOperationException). On
COORDINATOR_LOAD_IN_PROGRESS old clients retry at the same coordinator."""


class Verification(Protocol):
    """Checks with a transaction's coordinator, in this broker or elsewhere, whether a partition belongs to the transaction."""

    def join(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partition: TopicPartition,
        then: Callable[[KafkaError | None], None],
        *,
        implicit_add: bool,
        has_waited: bool = False,
    ) -> None:
        """Check that the client has added a partition to its transaction. With ``implicit_add`` (transaction version 2), add the
        partition.

        ``then`` is called with None for success or with the coordinator's error, possibly before the call returns. The error is
        TRANSACTION_ABORTABLE if the partition is not part of the transaction. ``has_waited`` means that the caller has already
        waited for a call of ``then`` for this transaction, so earlier additions are durable by now.
        """
        ...

    def join_all(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        then: Callable[[], None],
        *,
        implicit_add: bool,
    ) -> None:
        """Verify several partitions together, so that one record of the coordinator adds them all.

        ``then`` is called once `join` has a result for each partition, possibly before the call returns. If it is called later, the
        caller must pass ``has_waited`` to `join`.
        """
        ...


class LocalVerification:
    """`Verification` by the coordinator of this broker.

    Usually ``then`` is called before `join` returns. So with ``ottla.durability=power`` a power cut may keep a batch and remove the
    coordinator's record that adds its partition; the restarted broker adds the partition again
    (`broker.coordinators.lost_additions`). If a restarted broker could not do that, ``then`` is called after the record is on
    disk. Otherwise no coordinator would know of the transaction, and the partition's last stable offset would never advance again.
    """

    def __init__(self, kernel: Kernel, transactions: Transactions, cluster_state: ClusterState) -> None:
        self._clock = kernel.env
        self._config = kernel.config
        self._counters = kernel.counters
        self._transactions = transactions
        self._cluster_state = cluster_state
        self._barrier = kernel.barrier

    def join(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partition: TopicPartition,
        then: Callable[[KafkaError | None], None],
        *,
        implicit_add: bool,
        has_waited: bool = False,
    ) -> None:
        began_ms = self._clock.monotonic_ms()
        refusal, was_added = None, False
        try:
            was_added = self._ask(transactional_id, identity, partition, implicit_add)
        except KafkaError as error:
            self._counters.verification_failures += 1
            refusal = error
        finally:
            self._counters.verification_ms.add(self._clock.monotonic_ms() - began_ms)
        is_settled = refusal is not None or (not was_added and (has_waited or not implicit_add))
        transactions = self._transactions
        if self._barrier.never_waits or is_settled or transactions.may_be_added_again(transactional_id):
            then(refusal)
        elif transactions.is_synced(transactional_id):
            then(None)
        else:
            # The caller calls `join` again, which finds out whether the record is on disk.
            self._barrier.answer(lambda _: then(None))

    def join_all(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        then: Callable[[], None],
        *,
        implicit_add: bool,
    ) -> None:
        """Add all partitions with one record. Without ``implicit_add`` nothing is logged. Errors are reported by `join`."""
        if implicit_add:
            with contextlib.suppress(KafkaError):
                self._add(transactional_id, identity, partitions)
        then()

    def _add(self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Collection[TopicPartition]) -> bool:
        if self._cluster_state.transaction_version == 0:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        return self._transactions.add_partitions(transactional_id, identity, partitions, client_transaction_version=2)

    def _ask(self, transactional_id: str, identity: ProducerIdAndEpoch, partition: TopicPartition, implicit_add: bool) -> bool:
        """Verify or add the partition. Returns whether the partition was new to the transaction and was added. Raises the
        coordinator's `KafkaError`."""
        if implicit_add:
            return self._add(transactional_id, identity, [partition])
        if self._config.settings.transaction_partition_verification_enable:
            code = self._transactions.verify(transactional_id, identity, [partition])[partition]
            if code is not Code.NONE:
                raise KafkaError(code, "the partition is not part of the transaction")
        return False


def join_transaction(
    verification: Verification,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    partition: TopicPartition,
    *,
    implicit_add: bool,
    has_waited: bool,
) -> Pause[None] | None:
    """Call `Verification.join` for a handler. Returns None if the partition is now part of the transaction.

    A returned `Pause` ends when the coordinator has responded. The handler must then call this function again with ``has_waited``,
    because the state may have changed. Between a result of None and its append, the handler must not wait. Raises the coordinator's
    error.
    """
    answers: list[KafkaError | None] = []
    pause: Pause[None] = Pause()

    def answered(refusal: KafkaError | None) -> None:
        answers.append(refusal)
        pause.end()

    verification.join(transactional_id, identity, partition, answered, implicit_add=implicit_add, has_waited=has_waited)
    if not answers:
        return pause
    if answers[0] is not None:
        raise answers[0]
    return None
