"""DescribeProducers, version 0 (KIP-664): lists the producers of a partition, and the start offsets of their open transactions.

As in Kafka, a follower also describes its replica.

Kafka authorises READ on each topic.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, denied
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

PARTITION_WORK = 3
"""Estimated time to describe a partition, excluding its producers, in units of 2 us."""

_UNKNOWN = "This server does not host this topic-partition."
"""Kafka's message for an unknown topic. Kafka has no message for an unknown partition."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    cluster: ClusterCommands


async def handle(ports: Ports, request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    topics, pace = [], Pace(double_first=True)
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            if pace.spend(PARTITION_WORK):
                await next_turn()
            answers.append(await _describe(ports, context, topic.name, index, pace))
        topics.append(TopicResponse(name=topic.name, partitions=answers))
        if pace.spend(1):
            await next_turn()
    return DescribeProducersResponse(throttle_time_ms=0, topics=topics)


async def _describe(ports: Ports, context: RequestContext, topic: str, index: int, pace: Pace) -> PartitionResponse:
    try:
        check_topic_name(topic)
        if not ports.authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, topic):
            raise denied(ResourceType.TOPIC)
        if topic not in ports.cluster.state.topics:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN)
        log = ports.partitions.replica(topic, index).log
        log.check_online()
        entries = log.producers.entries
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    producers = []
    for e in list(entries.values()):
        producers.append(
            ProducerState(
                producer_id=e.producer_id,
                producer_epoch=e.epoch,
                last_sequence=e.last_sequence,
                last_timestamp=e.last_timestamp_ms,
                coordinator_epoch=e.coordinator_epoch,
                current_txn_start_offset=e.txn_first_offset,
            )
        )
        if pace.spend(1):
            await next_turn()
    return PartitionResponse(partition_index=index, error_code=0, error_message=None, active_producers=producers)


def failed(request: DescribeProducersRequest, version: int, code: Code) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            TopicResponse(
                name=t.name, partitions=[PartitionResponse(partition_index=i, error_code=code) for i in t.partition_indexes]
            )
            for t in request.topics
        ],
    )


API = Declaration(
    key=61,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ TOPIC", by_handler=True),
    is_bulky=True,
)
