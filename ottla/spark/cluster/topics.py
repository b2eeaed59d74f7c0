"""Finds the topics that the sink can write to, and their partition counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.client.cluster import BrokerConnections
from ottla.protocol.errors import Code
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.protocol.primitives import NO_UUID


def partition_counts(cluster: BrokerConnections, topics: Sequence[str] = ()) -> dict[str, int]:
    """Return the partition count of each given topic, or of all topics that are not internal. Raises `PipelineError` if a topic
    does not exist."""
    if topics:
        return {topic: len(cluster.leader_nodes(topic)) for topic in topics}
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = cluster.ask_until_final(cluster.anyone, request, lambda answer: 0, "looking for topics")
    return {t.name: len(t.partitions) for t in answer.topics if not t.error_code and not t.is_internal}


_NOT_THERE = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.TOPIC_AUTHORIZATION_FAILED, Code.INVALID_TOPIC_EXCEPTION)


def existing(cluster: BrokerConnections, topics: Sequence[str]) -> dict[str, int]:
    """Return the partition counts of ``topics``. Topics that do not exist, are internal, or that the client may not see are
    omitted. Raises `PipelineError` for other errors."""
    return {name: len(topic.partitions) for name, topic in _seen(cluster, topics)}


def topic_ids(cluster: BrokerConnections, topics: Sequence[str]) -> dict[str, str]:
    """Return the ids of ``topics``, in hexadecimal. Topics that do not exist are omitted. A topic that was deleted and created
    again has another id (KIP-516); brokers before 2.8 have no ids. Raises `PipelineError`."""
    return {name: topic.topic_id.hex() for name, topic in _seen(cluster, topics) if topic.topic_id != NO_UUID}


def _seen(cluster: BrokerConnections, topics: Sequence[str]) -> list[tuple[str, MetadataResponseTopic]]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False)

    def code_of(answer: Any) -> int:
        return next((t.error_code for t in answer.topics if t.error_code and t.error_code not in _NOT_THERE), 0)

    answer = cluster.ask_until_final(cluster.anyone, request, code_of, "looking for topics")
    return [(topic.name, topic) for topic in answer.topics if topic.name and not topic.error_code and not topic.is_internal]
