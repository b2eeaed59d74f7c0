"""How large a batch of a topic may be, asked of the broker: what is larger is seen before it stops a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.spark.errors import BrokerRefused, NotServed
from ottla.spark.wire import ClusterClient

DEFAULT_LIMIT_BYTES = 1_048_588
"""Of message.max.bytes and max.message.bytes."""
PRODUCERS_LIMIT_BYTES = 1_000_000
"""Of a record, by librdkafka's message.max.bytes, which the sink that writes from one process goes by."""
BATCH_BYTES = 256 << 10
"""Of records before compression, in a batch of the sink's."""
_OVERHEAD_BYTES = 128
"""Of a batch around its records, and of a codec around what it cannot make smaller; the latter has a part of them as well."""
_OVERHEAD_PART = 64
_TOPIC = 2
_LIMIT = "max.message.bytes"


def largest_batches(cluster: ClusterClient, topics: Sequence[str]) -> dict[str, int]:
    """Topic -> max.message.bytes; Kafka's default where this client may not ask. Raises `PipelineError`."""
    wanted = [DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[_LIMIT]) for topic in topics]

    def code_of(answer: Any) -> int:
        return next((int(result.error_code) for result in answer.results if result.error_code), 0)

    try:
        answer = cluster.ask(cluster.anyone, DescribeConfigsRequest(resources=wanted), code_of, "asking for the topics' limits")
    except BrokerRefused as refused:
        if refused.code == Code.TOPIC_AUTHORIZATION_FAILED:
            return dict.fromkeys(topics, DEFAULT_LIMIT_BYTES)
        raise
    said = {result.resource_name: {config.name: config.value for config in result.configs} for result in answer.results}
    return {topic: int(said[topic].get(_LIMIT) or DEFAULT_LIMIT_BYTES) for topic in topics}


def small_batches(cluster: ClusterClient, topics: Sequence[str]) -> dict[str, int]:
    """How much a batch may hold, of those topics that take less than `BATCH_BYTES`; none where the broker does not say."""
    if not topics:
        return {}
    try:
        limits = largest_batches(cluster, topics)
    except (BrokerRefused, NotServed):
        return {}
    room = {topic: max(1, limit - limit // _OVERHEAD_PART - _OVERHEAD_BYTES) for topic, limit in limits.items()}
    return {topic: size_bytes for topic, size_bytes in room.items() if size_bytes < BATCH_BYTES}
