"""DescribeTopicPartitions, version 0 (KIP-966): describes topics with their partitions, ordered by name, page by page.

Kafka leaves out topics that the client may not DESCRIBE.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.brokers import known_brokers, offline_replicas
from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import NO_LEADER, PartitionRegistration
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.coordinator.metadata.topics import Topic
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

TOPIC_WORK = 5
"""Estimated time to describe a topic, in units of 2 us.

Partitions are not counted: ``max.request.partition.size.limit`` limits their number.
"""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    state = ports.cluster.state
    asked = request.topics
    if not (await made(lambda: _is_sound(request), len(asked))):
        return failed(request, context.version, Code.INVALID_REQUEST)
    first, start = "", 0
    if request.cursor is not None:
        first, start = request.cursor.topic_name, request.cursor.partition_index
    alive = {broker.node_id for broker in known_brokers(ports, context.listener)}
    left = min(max(request.response_partition_limit, 1), ports.live_config.settings.max_request_partition_size_limit)
    names = [t.name for t in asked] or list(state.topics)
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    authorizer, pace = ports.authorizer, Pace(double_first=True)
    for name in await made(lambda: sorted({name for name in names if name >= first}), len(names)):
        if pace.spend(TOPIC_WORK):
            await next_turn()
        if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=bool(asked)):
            if asked:
                denied.append(_denied(name))
            continue
        topic = state.topics.get(name)
        operations = authorizer.operations(context, ResourceType.TOPIC, name)
        if topic is None:
            if asked:
                answers.append(_missing(name, operations))
            continue
        begin = start if name == first else 0
        if left == 0:
            return DescribeTopicPartitionsResponse(
                throttle_time_ms=0, topics=answers + denied, next_cursor=Cursor(topic_name=name, partition_index=begin)
            )
        # A cursor may point after the topic's last partition. As in Kafka, the topic is then listed without partitions.
        end = max(begin, min(topic.partition_count, begin + left))
        answers.append(_describe(ports, alive, topic, begin, end, operations))
        left -= end - begin
        if end < topic.partition_count:
            return DescribeTopicPartitionsResponse(
                throttle_time_ms=0, topics=answers + denied, next_cursor=Cursor(topic_name=name, partition_index=end)
            )
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=answers + denied, next_cursor=None)


def _is_sound(request: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is valid: its partition is not negative, and its topic is requested, or all topics are
    (DescribeTopicPartitionsRequestHandler)."""
    cursor = request.cursor
    if cursor is None:
        return True
    return cursor.partition_index >= 0 and (not request.topics or any(t.name == cursor.topic_name for t in request.topics))


def _missing(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    code = Code.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=NO_UUID, topic_authorized_operations=operations
    )


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=Code.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=NO_UUID, topic_authorized_operations=NOT_ASKED
    )


def _describe(
    ports: Ports, alive: set[int], topic: Topic, begin: int, end: int, operations: int
) -> DescribeTopicPartitionsResponseTopic:
    node_id = ports.live_config.settings.node_id
    state, is_alone = ports.cluster.state, ports.cluster.is_alone
    partitions = [
        _here(node_id, i, topic.partitions[i]) if is_alone else _partition(state, alive, i, topic.partitions[i])
        for i in range(begin, end)
    ]
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _here(node_id: int, index: int, partition: PartitionRegistration) -> DescribeTopicPartitionsResponsePartition:
    """Describe a partition in a cluster of one broker."""
    return DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=node_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[],
    )


def _partition(
    state: ClusterState, alive: set[int], index: int, partition: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = partition.leader in alive
    return DescribeTopicPartitionsResponsePartition(
        # Unlike Metadata, DescribeTopicPartitions returns no error for a partition without a leader (KRaftMetadataCache).
        error_code=0,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(state, partition, alive),
    )


def failed(request: DescribeTopicPartitionsRequest, version: int, code: Code) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=0,
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=t.name) for t in request.topics],
        next_cursor=None,
    )


API = Declaration(
    key=75,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
)
