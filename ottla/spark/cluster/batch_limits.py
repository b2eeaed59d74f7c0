"""Asks the broker for the largest batch of a topic, so that a record that is too large is noticed before it stops a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.spark.cluster.wire import ClusterClient
from ottla.spark.errors import BrokerRefused, NotServed

DEFAULT_LIMIT_BYTES = 1_048_588
"""Kafka's default of message.max.bytes and max.message.bytes."""
PRODUCERS_LIMIT_BYTES = 1_000_000
"""The largest record, in bytes, by librdkafka's default of message.max.bytes, which the writer in the driver has."""
BATCH_BYTES = 256 << 10
"""How many bytes of records, before compression, a batch of the sink has."""
_OVERHEAD_BYTES = 128
"""How many bytes a batch adds to its records, and a codec to data that it cannot compress. A codec also adds a small part of the
data's size."""
_OVERHEAD_PART = 64
_TOPIC = 2
_LIMIT = "max.message.bytes"


def largest_batches(cluster: ClusterClient, topics: Sequence[str]) -> dict[str, int]:
    """The max.message.bytes of each topic; Kafka's default where this client may not ask. Raises `PipelineError`."""
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
    """How many bytes a batch may have for topics that accept less than `BATCH_BYTES`; empty where the broker does not say."""
    if not topics:
        return {}
    try:
        limits = largest_batches(cluster, topics)
    except (BrokerRefused, NotServed):
        return {}
    room = {topic: max(1, limit - limit // _OVERHEAD_PART - _OVERHEAD_BYTES) for topic, limit in limits.items()}
    return {topic: size_bytes for topic, size_bytes in room.items() if size_bytes < BATCH_BYTES}
