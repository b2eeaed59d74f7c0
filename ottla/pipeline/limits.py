"""How large a record may be, asked of the broker: what is larger is seen before it stops a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.spark.errors import BrokerRefused
from ottla.spark.wire import ClusterClient

DEFAULT_LIMIT_BYTES = 1_048_588
"""Of message.max.bytes and max.message.bytes."""
PRODUCERS_LIMIT_BYTES = 1_000_000
"""Of a record, by librdkafka's message.max.bytes, which the sink that writes from one process goes by."""
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
