"""Assigns the replicas of new partitions: spread over brokers and racks, or as the client specifies."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.loop.env import Randomness
from ottla.broker.metadata.placement import Replicas
from ottla.coordinator.controller import placement
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import PartitionRegistration


class ControllerPlacement:
    """Places partitions on the registered brokers, spread over racks (`broker.metadata.placement.Placement`)."""

    def __init__(self, randomness: Randomness, config: LiveConfig, state: ClusterState) -> None:
        self._randomness = randomness
        self._config = config
        self._state = state

    @property
    def default_replication_factor(self) -> int:
        return self._config.settings.default_replication_factor

    def placed(self, partition_count: int, replication_factor: int) -> list[PartitionRegistration]:
        return placement.placed(self._state, partition_count, replication_factor, self._random_below)

    def assigned(
        self, assignments: Mapping[int, Replicas], *, first: int = 0, replication_factor: int | None = None
    ) -> list[PartitionRegistration]:
        return placement.assigned(self._state, assignments, first, replication_factor)

    def _random_below(self, end: int) -> int:
        return int.from_bytes(self._randomness.random_uuid()[:4], "big") % end
