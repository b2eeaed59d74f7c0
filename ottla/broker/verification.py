"""Asks the transaction coordinator whether a batch belongs to an open transaction, before a partition's first append (KIP-890).

The tables here turn the coordinator's errors into the errors that a client gets, which differ by API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.broker.counters import Counters
from ottla.broker.env import Clock
from ottla.broker.live_config import LiveConfig
from ottla.broker.transactions import Transactions
from ottla.coordinator.cluster import ClusterState
from ottla.coordinator.transaction.metadata import TopicPartition
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError

PRODUCE_CODES = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.NOT_ENOUGH_REPLICAS,
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_COORDINATOR: Code.NOT_ENOUGH_REPLICAS,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}
"""The errors of Produce (ReplicaManager.handleProduceAppend)."""

OFFSET_COMMIT_CODES = {
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}
"""The errors of TxnOffsetCommit (GroupCoordinatorService.handleOperationException)."""


class Verification(Protocol):
    """Asks a transaction's coordinator, in this broker or elsewhere, whether a partition belongs to the transaction."""

    def join(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partition: TopicPartition,
        then: Callable[[KafkaError | None], None],
        *,
        implicit_add: bool,
    ) -> None:
        """Check that the client has added a partition to its transaction or, with ``implicit_add``, add the partition.

        ``implicit_add`` is for transaction version 2. ``then`` is called with None or with the coordinator's error, possibly before
        the call returns. The error is TRANSACTION_ABORTABLE where the partition is not part of the transaction.
        """
        ...


class LocalVerification:
    """`Verification` by the coordinator of this broker, which answers before `join` returns."""

    def __init__(
        self, *, clock: Clock, config: LiveConfig, counters: Counters, transactions: Transactions, cluster_state: ClusterState
    ) -> None:
        self._clock = clock
        self._config = config
        self._counters = counters
        self._transactions = transactions
        self._cluster_state = cluster_state

    def join(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partition: TopicPartition,
        then: Callable[[KafkaError | None], None],
        *,
        implicit_add: bool,
    ) -> None:
        began_ms = self._clock.monotonic_ms()
        refusal = None
        try:
            self._ask(transactional_id, identity, partition, implicit_add)
        except KafkaError as error:
            self._counters.verification_failures += 1
            refusal = error
        finally:
            self._counters.verification_ms.add(self._clock.monotonic_ms() - began_ms)
        then(refusal)

    def _ask(self, transactional_id: str, identity: ProducerIdAndEpoch, partition: TopicPartition, implicit_add: bool) -> None:
        if implicit_add:
            if self._cluster_state.transaction_version == 0:
                raise KafkaError(Code.UNSUPPORTED_VERSION)
            self._transactions.add_partitions(transactional_id, identity, [partition], client_version=2)
        elif self._config.settings.transaction_partition_verification_enable:
            code = self._transactions.verify(transactional_id, identity, [partition])[partition]
            if code is not Code.NONE:
                raise KafkaError(code, "the partition is not part of the transaction")


def join_transaction(
    verification: Verification,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    partition: TopicPartition,
    *,
    implicit_add: bool,
) -> None:
    """`Verification.join` for a handler that must not wait between the check and its append. Raises the coordinator's error.

    The coordinator must be in this broker, so that it answers at once.
    """
    answers: list[KafkaError | None] = []
    verification.join(transactional_id, identity, partition, answers.append, implicit_add=implicit_add)
    assert answers, "a coordinator elsewhere answers later, and its answer has to be waited for"
    if answers[0] is not None:
        raise answers[0]
