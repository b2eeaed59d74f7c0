"""Which topics there are to write to, and how many partitions they have."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.messages.metadata import MetadataRequest
from ottla.spark.wire import ClusterClient


def partition_counts(cluster: ClusterClient, topics: Sequence[str] = ()) -> dict[str, int]:
    """By topic, of those that are named, else of all that are not internal. Raises `PipelineError` where one does not exist."""
    if topics:
        return {topic: len(cluster.leaders(topic)) for topic in topics}
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = cluster.ask(cluster.anyone, request, lambda answer: 0, "looking for topics")
    return {t.name: len(t.partitions) for t in answer.topics if not t.error_code and not t.is_internal}
