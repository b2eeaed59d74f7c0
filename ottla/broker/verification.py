"""Whether a batch may join a transaction (KIP-890): asked of the coordinator before the first append to a partition.

What a client sees of the coordinator's answer differs by API; the tables stand side by side here.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.cluster import Cluster
from ottla.broker.counters import Counters
from ottla.broker.env import Clock
from ottla.broker.live_config import LiveConfig
from ottla.broker.transactions import Transactions
from ottla.coordinator.transaction.metadata import TopicPartition
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError


class Ports(Protocol):
    transactions: Transactions
    cluster: Cluster
    live_config: LiveConfig
    clock: Clock
    counters: Counters


PRODUCE_CODES = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.NOT_ENOUGH_REPLICAS,
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_COORDINATOR: Code.NOT_ENOUGH_REPLICAS,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}
"""ReplicaManager.handleProduceAppend."""

OFFSET_COMMIT_CODES = {
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}
"""GroupCoordinatorService.handleOperationException, for TxnOffsetCommit."""


def join_transaction(
    ports: Ports, transactional_id: str, identity: ProducerIdAndEpoch, partition: TopicPartition, *, implicit_add: bool
) -> None:
    """Add the partition (``implicit_add``, transaction version 2) or check that the client has added it.

    Raises the coordinator's `KafkaError`, TRANSACTION_ABORTABLE where the partition is not part of the transaction.
    """
    counters = ports.counters
    began_ms = ports.clock.monotonic_ms()
    try:
        if implicit_add:
            if ports.cluster.transaction_version == 0:
                raise KafkaError(Code.UNSUPPORTED_VERSION)
            ports.transactions.add_partitions(transactional_id, identity, [partition], client_version=2)
        elif ports.live_config.settings.transaction_partition_verification_enable:
            code = ports.transactions.verify(transactional_id, identity, [partition])[partition]
            if code is not Code.NONE:
                raise KafkaError(code, "the partition is not part of the transaction")
    except KafkaError:
        counters.verification_failures += 1
        raise
    finally:
        counters.verification_ms.add(ports.clock.monotonic_ms() - began_ms)
