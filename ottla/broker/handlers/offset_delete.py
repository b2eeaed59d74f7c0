"""OffsetDelete, version 0 (KIP-496): deletes offsets of topics to which the group does not subscribe.

Kafka authorises DELETE on the group, and READ on each topic.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import refused_first
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition
from ottla.security.acl.codes import AclOperation, ResourceType

PARTITION_WORK = 5
"""Estimated time to delete an offset, in units of 2 us."""

Topics = dict[Hashable, OffsetDeleteResponseTopic]


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    groups: Groups
    cluster: ClusterCommands


async def handle(ports: Ports, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Delete the offsets in batches. Each batch checks the group's subscriptions again."""
    refused: Topics = {}
    asked: Topics = {}
    waiting: list[OffsetDeleteResponsePartition] = []
    wheres: list[TopicPartition] = []
    pace = Pace()
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        for t in request.topics:
            if t.name not in ports.cluster.state.topics:
                # As in Kafka, an unknown topic is in the response even if the request names no partitions of it.
                refused.setdefault(t.name, OffsetDeleteResponseTopic(name=t.name, partitions=[]))
            may_read = ports.authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, t.name)
            for p in t.partitions:
                answer = OffsetDeleteResponsePartition(
                    partition_index=p.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION
                )
                is_there = may_read and ports.partitions.exists(t.name, p.partition_index)
                if not may_read:
                    answer.error_code = Code.TOPIC_AUTHORIZATION_FAILED
                topics = asked if is_there else refused
                topics.setdefault(t.name, OffsetDeleteResponseTopic(name=t.name, partitions=[])).partitions.append(answer)
                if is_there:
                    waiting.append(answer)
                    wheres.append((t.name, p.partition_index))
                if pace.spend(PARTITION_WORK):
                    _delete(ports, request.group_id, wheres, waiting)
                    waiting, wheres = [], []
                    await next_turn()
            if pace.spend(1):
                await next_turn()
        _delete(ports, request.group_id, wheres, waiting)
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return await made(lambda: OffsetDeleteResponse(topics=refused_first(refused, asked)), len(request.topics))


def _delete(ports: Ports, group_id: str, partitions: list[TopicPartition], answers: list[OffsetDeleteResponsePartition]) -> None:
    shard, runtime = ports.groups.shard(group_id)
    codes = runtime.execute(shard.delete_offsets(group_id, partitions))
    for where, answer in zip(partitions, answers, strict=True):
        answer.error_code = codes[where]


def failed(request: OffsetDeleteRequest, version: int, code: Code) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(code)


API = Declaration(
    key=47,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DELETE GROUP group_id, READ TOPIC"),
)
