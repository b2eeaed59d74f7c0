"""Metadata, versions 0 to 13: returns brokers, topics and partitions with their leaders. Creates unknown topics if allowed.

- 0: an empty list means all topics; since 1 null means all topics, and an empty list none.
- 4: a client may forbid the creation of topics.
- 7 (KIP-320): the response has leader epochs.
- 8 (KIP-430): the response has authorised operations on request.
- 10 (KIP-516): topic ids in the response, and since 12 in the request.
- 13 (KIP-1102): an error code for the whole response.

Kafka authorises DESCRIBE on each topic, CREATE on the cluster or on a new topic, and DESCRIBE on the cluster for the cluster's
authorised operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.brokers import known_brokers, offline_replicas
from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.broker.handlers.support.each import each, made
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.partition_registration import NO_LEADER, PartitionRegistration
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.coordinator.metadata.topics import Topic
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.primitives import NO_UUID
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType

SMALL_ENTRIES = 100
"""Maximum number of topics and partitions in a small response, which has a few kilobytes."""
CREATE_WORK = 60
"""Estimated time to handle an unknown topic, which may be created, in units of 2 us."""
UNAVAILABLE_REPLICAS_FROM = 1
LISTENER_NOT_FOUND_FROM = 6
IDS_FROM = 12
"""The first version in which requests may have topic ids, although the schema has the field since version 10."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig
    cluster_id: str
    quotas: ClientQuotaEnforcement

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    version = context.version
    brokers = known_brokers(ports, context.listener)
    alive = {broker.node_id for broker in brokers}

    def answer(topics: Iterator[MetadataResponseTopic]) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
                for broker in brokers
            ],
            cluster_id=ports.cluster_id,
            controller_id=ports.live_config.settings.node_id,
            topics=list(topics),
            cluster_authorized_operations=_cluster_operations(ports, context, request),
        )

    asked = request.topics
    if asked is None or (version == 0 and not asked):
        every = list(ports.cluster.state.topics.values())
        if ports.authorizer.is_enabled:
            every = [topic for topic in every if _may_describe(ports, context, topic.name, is_named=False)]
        return await each(every, lambda topic: _describe(ports, context, request, topic, alive), answer, work=_work)
    ids, names, is_nameless = await made(lambda: _distinct(asked), len(asked))
    if version < IDS_FROM and (ids or is_nameless):
        return failed(request, version, Code.INVALID_REQUEST)
    if ids:
        # In a request with topic ids, names are ignored: Java's Admin sends "" as the name for each id.
        by_id = ports.cluster.state.topics_by_id
        return await each(
            ids,
            lambda topic_id: _by_id(ports, context, request, topic_id, alive),
            answer,
            work=lambda topic_id: _work(by_id.get(topic_id)),
        )
    by_name = ports.cluster.state.topics
    return await each(
        names,
        lambda name: _by_name(ports, context, request, name, alive),
        answer,
        work=lambda name: _work(by_name[name]) if name in by_name else CREATE_WORK,
    )


def _distinct(asked: list[MetadataRequestTopic]) -> tuple[dict[bytes, None], dict[str, None], bool]:
    ids = dict.fromkeys(item.topic_id for item in asked if item.topic_id != NO_UUID)
    return ids, dict.fromkeys(item.name or "" for item in asked), any(item.name is None for item in asked)


def _work(topic: Topic | None) -> int:
    """Estimated time to describe a topic, in units of 2 us."""
    return 5 if topic is None else 5 + topic.partition_count // 2


def _by_id(
    ports: Ports, context: RequestContext, request: MetadataRequest, topic_id: bytes, alive: set[int]
) -> MetadataResponseTopic:
    topic = ports.cluster.state.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=Code.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not _may_describe(ports, context, topic.name):
        return MetadataResponseTopic(error_code=Code.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _describe(ports, context, request, topic, alive)


def _may_describe(ports: Ports, context: RequestContext, name: str, *, is_named: bool = True) -> bool:
    return ports.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=is_named)


def _may_create(ports: Ports, context: RequestContext, name: str) -> bool:
    authorizer = ports.authorizer
    return authorizer.allows(
        context, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False
    ) or authorizer.allows(context, AclOperation.CREATE, ResourceType.TOPIC, name)


def _cluster_operations(ports: Ports, context: RequestContext, request: MetadataRequest) -> int:
    if not request.include_cluster_authorized_operations:
        return NOT_ASKED
    authorizer = ports.authorizer
    if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def _by_name(ports: Ports, context: RequestContext, request: MetadataRequest, name: str, alive: set[int]) -> MetadataResponseTopic:
    if not _may_describe(ports, context, name):
        return MetadataResponseTopic(error_code=Code.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=NO_UUID)
    topic = ports.cluster.state.topics.get(name)
    if topic is None:
        try:
            topic = _auto_create(ports, context, request, name)
        except KafkaError as error:
            return MetadataResponseTopic(
                error_code=error.code,
                name=name,
                topic_id=NO_UUID,
                is_internal=name in INTERNAL_TOPICS,
                partitions=[],
                topic_authorized_operations=NOT_ASKED
                if error.code is Code.TOPIC_AUTHORIZATION_FAILED
                else _operations(ports, context, request, name),
            )
    return _describe(ports, context, request, topic, alive)


def _auto_create(ports: Ports, context: RequestContext, request: MetadataRequest, name: str) -> Topic:
    allowed = ports.live_config.settings.auto_create_topics_enable and (context.version < 4 or request.allow_auto_topic_creation)
    if allowed and ports.authorizer.is_enabled and not _may_create(ports, context, name):
        raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
    # As in Kafka, Metadata reports a topic with the metadata log's name as unknown, whereas CreateTopics returns INVALID_REQUEST.
    if not allowed or name == METADATA_TOPIC:
        check_topic_name(name)
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if name in INTERNAL_TOPICS:
        return ports.cluster.ensure_internal(name)
    count = ports.live_config.settings.num_partitions
    record = lambda: ports.quotas.mutation_quota(context, strict_from=0).record(count)  # noqa: E731
    try:
        return ports.cluster.create_topic(name, count, {}, before_append=record)
    except KafkaError as error:
        if error.code is not Code.THROTTLING_QUOTA_EXCEEDED:
            raise
        # The client's quota refuses the topic. The client gets UNKNOWN_TOPIC_OR_PARTITION, and retries.
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION) from None


def _describe(
    ports: Ports, context: RequestContext, request: MetadataRequest, topic: Topic, alive: set[int]
) -> MetadataResponseTopic:
    if not ports.cluster.is_alone:
        version = context.version
        partitions = [_partition(ports, index, p, alive, version) for index, p in enumerate(topic.partitions)]
    else:
        partitions = _all_here(ports.live_config.settings.node_id, topic)
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=_operations(ports, context, request, topic.name),
    )


def _all_here(node_id: int, topic: Topic) -> list[MetadataResponsePartition]:
    """Describe a topic's partitions in a cluster of one broker."""
    node = [node_id]
    return [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=node_id,
            leader_epoch=partition.leader_epoch,
            replica_nodes=node,
            isr_nodes=node,
            offline_replicas=[],
        )
        for index, partition in enumerate(topic.partitions)
    ]


def _partition(
    ports: Ports, index: int, partition: PartitionRegistration, alive: set[int], version: int
) -> MetadataResponsePartition:
    """Describe a partition in a cluster of several brokers (KRaftMetadataCache.partitionMetadata).

    Version 0 leaves out unavailable replicas, because its clients cannot handle replicas whose broker is not in the response.
    """
    shown = version >= UNAVAILABLE_REPLICAS_FROM
    replicas = [node_id for node_id in partition.replicas if shown or node_id in alive]
    isr = [node_id for node_id in partition.isr if shown or node_id in alive]
    has_leader = partition.leader in alive
    code = Code.NONE
    if not has_leader:
        is_known = partition.leader in ports.cluster.state.registrations.brokers
        code = Code.LISTENER_NOT_FOUND if is_known and version >= LISTENER_NOT_FOUND_FROM else Code.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        code = Code.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(ports.cluster.state, partition, alive),
    )


def _operations(ports: Ports, context: RequestContext, request: MetadataRequest, name: str) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_ASKED
    return ports.authorizer.operations(context, ResourceType.TOPIC, name)


def failed(request: MetadataRequest, version: int, code: Code) -> MetadataResponse:
    return MetadataResponse(
        topics=[MetadataResponseTopic(error_code=code, name=t.name or "", topic_id=t.topic_id) for t in request.topics or []],
        error_code=code,
    )


def is_small(ports: Ports, request: MetadataRequest, context: RequestContext) -> bool:
    """Whether the response is small. A small response is not delayed while large responses fill the response budget."""
    if request.topics is None or (context.version == 0 and not request.topics):
        return False
    state = ports.cluster.state
    topics = [state.topics_by_id.get(t.topic_id) or state.topics.get(t.name or "") for t in request.topics]
    return len(topics) + sum(topic.partition_count for topic in topics if topic is not None) <= SMALL_ENTRIES


API = Declaration(
    key=3,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC, DESCRIBE CLUSTER", by_handler=True),
    is_bulky=True,
    is_small=is_small,
)
