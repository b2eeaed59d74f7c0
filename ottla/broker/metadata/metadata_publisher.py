"""Applies changes of the cluster's metadata to the broker: first to its partitions, then to its coordinators.

The records come from this broker's own log or from a controller in another process (BrokerMetadataPublisher).
"""

from __future__ import annotations

from functools import partial

import structlog

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.metadata.local_partitions import LocalPartitions
from ottla.broker.metadata.metadata_listener import MetadataFaults, MetadataListener
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterState
from ottla.coordinator.metadata.metadata_delta import MetadataDelta

log = structlog.get_logger("cluster")


class MetadataPublisher:
    """Applies the metadata that was replayed before `begin`, and then, with `publish`, the changes replayed since."""

    def __init__(self, state: ClusterState, config: LiveConfig, local: LocalPartitions) -> None:
        self._state = state
        self._config = config
        self._local = local
        self._listener: MetadataListener | None = None

    def begin(self, listener: MetadataListener) -> None:
        """Apply all metadata that has been replayed so far. ``listener`` is notified of later changes."""
        self._listener = listener
        self._config.set_dynamic(self.dynamic_broker_configs)
        self._state.delta = MetadataDelta()
        self._local.begin(listener.by_topic)

    def publish(self) -> None:
        """Apply the changes replayed since the last call. Does nothing before `begin`.

        Raises the first failure, which is a bug, after all other changes are applied.
        """
        delta, listener = self._state.delta, self._listener
        if delta is None or delta.is_empty or listener is None:
            return
        self._state.delta = MetadataDelta()
        faults = MetadataFaults()
        self._local.apply(delta, faults)
        for gone in delta.deleted:
            listener.topic_deleted(gone.name, faults)
            listener.topic_changed(gone.name, faults)
            log.info("topic_deleted", topic=gone.name)
        if delta.configs:
            faults.attempt(partial(self._apply_configs, delta), "configs", may_have_secrets=True)
        if delta.features:
            for name in delta.features:
                log.info("feature_level_set", feature=name, level=self._state.features.get(name, 0))
            faults.attempt(listener.features_changed, "features")
        for topic_id in delta.created:
            created = self._state.topics_by_id[topic_id]
            listener.topic_changed(created.name, faults)
            log.info("topic_created", topic=created.name, partitions=created.partition_count)
        for topic_id in delta.grown:
            topic = self._state.topics_by_id.get(topic_id)
            if topic is not None:
                listener.topic_changed(topic.name, faults)
        faults.raise_first()

    def _apply_configs(self, delta: MetadataDelta) -> None:
        if any(kind == BROKER_RESOURCE for kind, _ in delta.configs):
            self._config.set_dynamic(
                self.dynamic_broker_configs, delta.configs.get((BROKER_RESOURCE, str(self._state.node_id)), ())
            )
            self._local.set_log_configs(self._state.topics)
            return
        new = {self._state.topics_by_id[topic_id].name for topic_id in delta.created}
        changed = (name for kind, name in delta.configs if kind == TOPIC_RESOURCE and name not in new)
        self._local.set_log_configs(name for name in changed if name in self._state.topics)

    @property
    def dynamic_broker_configs(self) -> dict[str, str]:
        """The dynamic configs of this broker. Configs for this broker alone override the configs for all brokers."""
        state = self._state
        return {**state.config_of(BROKER_RESOURCE, ""), **state.config_of(BROKER_RESOURCE, str(state.node_id))}
