"""The whole cluster metadata as one value that tests can compare."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.metadata.cluster import ClusterState


def seen(state: ClusterState) -> tuple[Any, ...]:
    return (
        {name: (topic.topic_id, list(topic.partitions)) for name, topic in state.topics.items()},
        {topic_id: topic.name for topic_id, topic in state.topics_by_id.items()},
        {resource: dict(configs) for resource, configs in state.configs.items()},
        dict(state.features),
        dict(state.registrations.brokers),
        dict(state.registrations.controllers),
        state.next_producer_id,
        dict(state.acls.by_id),
    )
