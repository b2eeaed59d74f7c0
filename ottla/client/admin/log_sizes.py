"""Returns the sizes of partitions on disk (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.client.errors import ClientError
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.topic_partition import TopicPartition


def log_sizes(
    brokers: BrokerConnections, nodes: Iterable[BrokerNode], topics: Mapping[str, list[int]] | None = None
) -> dict[TopicPartition, int]:
    """Return the size in bytes of the largest replica of each partition in ``topics``, or of all partitions.

    Partitions of brokers that do not respond, or whose sizes this user may not see, are missing. Requests are not retried.
    """
    asked = None if topics is None else [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    sizes: dict[TopicPartition, int] = {}
    for node in nodes:
        try:
            answer = brokers.ask(brokers.node(node), DescribeLogDirsRequest(topics=asked))
        except (ClientError, OSError):
            continue
        for topic in (topic for result in answer.results for topic in result.topics):
            for partition in topic.partitions:
                where = topic.name, partition.partition_index
                sizes[where] = max(sizes.get(where, 0), partition.partition_size)
    return sizes
