"""DescribeShareGroupOffsets, versions 0 and 1 (KIP-932): shows the start offset of a share group in each partition.

- 1 (KIP-1226): the lag: the number of records whose delivery to the group is not complete.

As in Kafka the group need not exist: partitions without a state in the share coordinator get the start offset -1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, denied
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_groups import SUMMARY_WORK, ShareGroupStates, ShareOffset
from ottla.broker.handlers.support.common import share_error_message, topic_id
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

TOPIC_WORK = 2
"""Estimated time to handle a topic, excluding its partitions, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    share_groups: ShareGroupStates
    cluster: ClusterCommands


async def handle(
    ports: Ports, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    if not ports.groups.offers_share_protocol:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)
    described, pace = [], Pace(double_first=True)
    for asked in request.groups:
        if pace.spend(id_work(asked.group_id)):
            await next_turn()
        try:
            if not ports.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, asked.group_id):
                raise KafkaError(Code.GROUP_AUTHORIZATION_FAILED)
            topics = await _topics(ports, context, asked, pace)
            described.append(DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=topics))
        except KafkaError as error:
            described.append(_refused(asked.group_id, error))
    return DescribeShareGroupOffsetsResponse(groups=described)


def _refused(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[], error_code=error.code, error_message=share_error_message(error)
    )


async def _topics(
    ports: Ports, context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup, pace: Pace
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    """Return existing topics, then unknown topics, then topics that the client may not describe. Raises `KafkaError`.

    If the request is for all topics of the group, topics that the client may not describe are left out.
    """
    wanted: list[tuple[str, Iterable[int]]]
    if asked.topics is None:
        shard, _ = ports.groups.shard(asked.group_id)
        group, names = shard.shares.groups.get(asked.group_id), ports.groups.topics
        states = None if group is None else group.states
        initialized = {} if states is None else states.initialized
        named = ((names.topic_name(topic), sorted(of_topic.partitions)) for topic, of_topic in initialized.items())
        wanted = [(name, partitions) for name, partitions in named if name is not None]
    else:
        wanted = [(topic.topic_name, topic.partitions) for topic in asked.topics]
    known: list[DescribeShareGroupOffsetsResponseTopic] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    hidden: list[DescribeShareGroupOffsetsResponseTopic] = []
    summary_work = SUMMARY_WORK + id_work(asked.group_id)
    for name, partitions in wanted:
        if pace.spend(TOPIC_WORK):
            await next_turn()
        is_named = asked.topics is not None
        if not ports.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=is_named):
            if is_named:
                hidden.append(_denied(name, partitions))
            continue
        identity = topic_id(ports.cluster, name)
        answers = []
        for partition in partitions:
            if pace.spend(summary_work):
                await next_turn()
            is_known = identity != NO_UUID
            offset = ports.share_groups.offset(ShareKey(asked.group_id, identity, partition)) if is_known else ShareOffset()
            answers.append(
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=partition,
                    start_offset=offset.start_offset,
                    leader_epoch=offset.leader_epoch,
                    lag=offset.lag,
                )
            )
        topic = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=identity, partitions=answers)
        (unknown if identity == NO_UUID else known).append(topic)
    return known + unknown + hidden


def _denied(name: str, partitions: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    error = denied(ResourceType.TOPIC)
    results = [
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=partition,
            start_offset=-1,
            error_code=error.code,
            error_message=error.message,
        )
        for partition in partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=results)


def failed(request: DescribeShareGroupOffsetsRequest, version: int, code: Code) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, error_code=code) for asked in request.groups]
    )


API = Declaration(
    key=90,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
)
