"""Chooses the brokers for the partitions of new topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.coordinator.metadata.partition_registration import PartitionRegistration, sole_replica
from ottla.protocol.errors import Code, KafkaError

Replicas = tuple[int, ...]
"""Ids of the brokers with a partition's replicas. The first is the preferred leader."""


Place = Callable[[], list[PartitionRegistration]]
"""Returns the registrations of new partitions. The function must not change anything: for many partitions it is called in a worker
thread, and again if the metadata has changed meanwhile."""


class Placement(Protocol):
    @property
    def default_replication_factor(self) -> int:
        """The replication factor of topics for which the client specifies none."""
        ...

    def placed(self, partition_count: int, replication_factor: int) -> list[PartitionRegistration]:
        """Return registrations of new partitions, spread over the brokers. Raises INVALID_REPLICATION_FACTOR.

        May be called in worker threads.
        """
        ...

    def assigned(
        self, assignments: Mapping[int, Replicas], *, first: int = 0, replication_factor: int | None = None
    ) -> list[PartitionRegistration]:
        """Return registrations of new partitions, numbered from ``first`` on, with the replicas that a client assigns.

        Each partition must have ``replication_factor`` replicas; with None, all must have equally many. Raises
        INVALID_REPLICA_ASSIGNMENT.
        """
        ...


class SolePlacement:
    """Places every partition of a cluster of one broker on this broker."""

    default_replication_factor = 1

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def placed(self, partition_count: int, replication_factor: int) -> list[PartitionRegistration]:
        if replication_factor > 1:
            raise KafkaError(
                Code.INVALID_REPLICATION_FACTOR,
                f"The target replication factor of {replication_factor} cannot be reached because only 1 broker(s) are registered.",
            )
        return [sole_replica(self._node_id)] * partition_count

    def assigned(
        self, assignments: Mapping[int, Replicas], *, first: int = 0, replication_factor: int | None = None
    ) -> list[PartitionRegistration]:
        if sorted(assignments) != list(range(first, first + len(assignments))):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        if any(replicas != (self._node_id,) for replicas in assignments.values()):
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"invalid replicas: the only broker is {self._node_id}")
        return [sole_replica(self._node_id)] * len(assignments)
