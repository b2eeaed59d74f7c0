"""Partition counts and configs of the coordinators' topics (AutoTopicCreationManager)."""

from __future__ import annotations

import msgspec

from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.coordinator.metadata.server_config import MIN_INSYNC_REPLICAS
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC

_FACTORS = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_TOPIC: "transaction.state.log.replication.factor",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
_MIN_INSYNC_REPLICAS = {
    TRANSACTION_TOPIC: "transaction.state.log.min.isr",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.min.isr",
}
"""By topic, the setting that replaces the broker's ``min.insync.replicas``."""


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to be created."""

    name: str
    partition_count: int
    configs: dict[str, str]
    replication_factor: int


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """The internal topic of a coordinator, as the broker's settings determine it."""
    settings = config.settings
    if name == SHARE_STATE_TOPIC:
        count, configs = settings.share_coordinator_state_topic_num_partitions, _share_state_configs(settings)
    elif name == OFFSETS_TOPIC:
        count, configs = settings.offsets_topic_num_partitions, _compacted("producer", settings.offsets_topic_segment_bytes)
    else:
        count = settings.transaction_state_log_num_partitions
        configs = _compacted("uncompressed", settings.transaction_state_log_segment_bytes)
        configs |= {"unclean.leader.election.enable": "false"}
    if name in _MIN_INSYNC_REPLICAS:
        configs[MIN_INSYNC_REPLICAS] = config.text(_MIN_INSYNC_REPLICAS[name]) or "1"
    return NewTopic(name=name, partition_count=count, configs=configs, replication_factor=int(config.text(_FACTORS[name]) or 1))


def _compacted(compression: str, segment_bytes: int) -> dict[str, str]:
    return {"cleanup.policy": "compact", "compression.type": compression, "segment.bytes": str(segment_bytes)}


def _share_state_configs(settings: Settings) -> dict[str, str]:
    """``__share_group_state`` is not compacted, because an update record has only changes; a later snapshot record replaces it."""
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        "retention.ms": "-1",
    }
