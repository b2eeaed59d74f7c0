"""Applies changes of the cluster's metadata to the broker: first to its partitions, then to the requests that wait for them.

The records come from this broker's own log or from a controller elsewhere. Both are published here, in one order
(BrokerMetadataPublisher).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.metadata.local_partitions import LocalPartitions
from ottla.broker.metadata.metadata_faults import MetadataFaults
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterState
from ottla.coordinator.metadata.metadata_delta import MetadataDelta

log = structlog.get_logger("cluster")


class MetadataPublisher:
    """Applies the metadata of a start (`begin`) and the changes replayed since (`publish`)."""

    def __init__(self, state: ClusterState, config: LiveConfig, local: LocalPartitions) -> None:
        self._state = state
        self._config = config
        self._local = local
        self.on_topic_deleted: list[Callable[[str], None]] = []
        """Called in order with the name of each deleted topic, after its partitions are out of service."""
        self.on_topic_changed: list[Callable[[str], None]] = []
        """Called with the name of a topic that was created, grew, or was deleted."""
        self.on_transaction_version: list[Callable[[int], None]] = []
        """Called in order with the finalized level of ``transaction.version`` when features have changed."""
        self.on_features_changed: list[Callable[[], None]] = []
        """Called in order when features have changed."""

    def begin(self) -> None:
        """Apply everything that has been replayed so far."""
        self._config.set_dynamic(self.dynamic_broker_configs)
        self._state.delta = MetadataDelta()
        self._local.begin()

    def publish(self) -> None:
        """Apply the changes replayed since the last call. Before `begin` this does nothing.

        Raises the first failure, which is a bug, after everything else is applied.
        """
        delta = self._state.delta
        if delta is None or delta.is_empty:
            return
        self._state.delta = MetadataDelta()
        faults = MetadataFaults()
        self._local.apply(delta, faults)
        for gone in delta.deleted:
            for deleted in self.on_topic_deleted:
                faults.attempt(partial(deleted, gone.name), "topic deleted", topic=gone.name)
            self._topic_changed(gone.name, faults)
            log.info("topic_deleted", topic=gone.name)
        if delta.configs:
            faults.attempt(partial(self._apply_configs, delta), "configs")
        if delta.features:
            faults.attempt(partial(self._apply_features, delta), "features")
        for topic_id in delta.created:
            created = self._state.topics_by_id[topic_id]
            self._topic_changed(created.name, faults)
            log.info("topic_created", topic=created.name, partitions=created.partition_count)
        for topic_id in delta.grown:
            topic = self._state.topics_by_id.get(topic_id)
            if topic is not None:
                self._topic_changed(topic.name, faults)
        faults.raise_first()

    def _topic_changed(self, name: str, faults: MetadataFaults) -> None:
        for changed in self.on_topic_changed:
            faults.attempt(partial(changed, name), "topic changed", topic=name)

    def _apply_configs(self, delta: MetadataDelta) -> None:
        if any(kind == BROKER_RESOURCE for kind, _ in delta.configs):
            self._config.set_dynamic(self.dynamic_broker_configs)
            self._local.set_log_configs(self._state.topics)
            return
        new = {self._state.topics_by_id[topic_id].name for topic_id in delta.created}
        changed = (name for kind, name in delta.configs if kind == TOPIC_RESOURCE and name not in new)
        self._local.set_log_configs(name for name in changed if name in self._state.topics)

    def _apply_features(self, delta: MetadataDelta) -> None:
        for name in delta.features:
            log.info("feature_level_set", feature=name, level=self._state.features.get(name, 0))
        for version_changed in self.on_transaction_version:
            version_changed(self._state.transaction_version)
        for features_changed in self.on_features_changed:
            features_changed()

    @property
    def dynamic_broker_configs(self) -> dict[str, str]:
        """The dynamic configs of this broker: those for all brokers, overridden by those for this broker alone."""
        state = self._state
        return {**state.config_of(BROKER_RESOURCE, ""), **state.config_of(BROKER_RESOURCE, str(state.node_id))}
