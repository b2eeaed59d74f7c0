"""Reads max.message.bytes of the topics, so that the sink builds batches that the broker accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.client.cluster import BrokerConnections
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.spark.errors import BrokerRefused, NotServed

DEFAULT_LIMIT_BYTES = 1_048_588
"""Kafka's default of message.max.bytes and max.message.bytes."""
BATCH_BYTES = 256 << 10
"""Target size of the sink's batches, in bytes before compression."""
_OVERHEAD_BYTES = 128
"""Upper bound on the size of a batch header, and of the constant part that a codec adds to incompressible data, in bytes."""
_OVERHEAD_PART = 64
_TOPIC = 2
_LIMIT = "max.message.bytes"


def largest_batches(cluster: BrokerConnections, topics: Sequence[str]) -> dict[str, int]:
    """Read the max.message.bytes of each topic. Returns Kafka's default if the client may not describe the topics' configs. Raises
    `PipelineError`."""
    wanted = [DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[_LIMIT]) for topic in topics]

    def code_of(answer: Any) -> int:
        return next((int(result.error_code) for result in answer.results if result.error_code), 0)

    try:
        answer = cluster.ask_until_final(
            cluster.anyone, DescribeConfigsRequest(resources=wanted), code_of, "asking for the topics' limits"
        )
    except BrokerRefused as refused:
        if refused.code == Code.TOPIC_AUTHORIZATION_FAILED:
            return dict.fromkeys(topics, DEFAULT_LIMIT_BYTES)
        raise
    said = {result.resource_name: {config.name: config.value for config in result.configs} for result in answer.results}
    return {topic: int(said[topic].get(_LIMIT) or DEFAULT_LIMIT_BYTES) for topic in topics}


def small_batches(cluster: BrokerConnections, topics: Sequence[str]) -> dict[str, int]:
    """Return the maximum batch size, in bytes, of each topic that accepts only batches below `BATCH_BYTES`; empty if unknown."""
    if not topics:
        return {}
    try:
        limits = largest_batches(cluster, topics)
    except (BrokerRefused, NotServed):
        return {}
    room = {topic: max(1, limit - limit // _OVERHEAD_PART - _OVERHEAD_BYTES) for topic, limit in limits.items()}
    return {topic: size_bytes for topic, size_bytes in room.items() if size_bytes < BATCH_BYTES}
