"""OffsetFetch, versions 1 to 10: returns the committed offsets of a group, for all or some of its topics.

- 2: null means all topics; the whole response has an error code. In version 1 only partitions have error codes.
- 7 (KIP-447): with ``require_stable`` a partition with pending offsets of an open transaction gets UNSTABLE_OFFSET_COMMIT.
- 8 (KIP-709): many groups in one request.
- 10: topics by id.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import topic_id, topic_name
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.group.offsets import GroupOffsets
from ottla.coordinator.group.records import CommittedOffset
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

CODE_FROM = 2
GROUPS_FROM = 8
IDS_FROM = 10
SMALL_ENTRIES = 20
"""Maximum number of partitions in a small response: 80 KiB with the default ``offset.metadata.max.bytes``."""
PARTITIONS_AT_ONCE = 150
"""Maximum number of a group's partitions that are handled without a pause."""
COPIED_PER_WORK = 200
"""Number of offsets whose copying counts as one unit of work (`protocol.steps.Pace`)."""
PARTITION_WORK = 3
"""Estimated time to fetch a partition's offset, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    cluster: ClusterCommands


async def handle(ports: Ports, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    groups = request.groups
    if context.version < GROUPS_FROM:
        groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=None)]
    pace, answers = Pace(double_first=True), []
    if context.version < GROUPS_FROM and request.topics is not None:
        groups[0].topics = []
        for asked in request.topics:
            groups[0].topics.append(OffsetFetchRequestTopics(name=asked.name, partition_indexes=asked.partition_indexes))
            if pace.spend(1):
                await next_turn()
    for group in groups:
        if pace.spend(id_work(group.group_id)):
            await next_turn()
        answers.append(await _group(ports, context, group, request.require_stable, pace))
    if context.version >= GROUPS_FROM:
        return OffsetFetchResponse(groups=answers)
    if answers[0].error_code:
        return failed(request, context.version, Code(answers[0].error_code))
    topics = []
    for t in answers[0].topics:
        partitions = []
        for p in t.partitions:
            partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=p.partition_index,
                    committed_offset=p.committed_offset,
                    committed_leader_epoch=p.committed_leader_epoch,
                    metadata=p.metadata,
                    error_code=p.error_code,
                )
            )
            if pace.spend(PARTITION_WORK):
                await next_turn()
        topics.append(OffsetFetchResponseTopic(name=t.name, partitions=partitions))
        if pace.spend(1):
            await next_turn()
    return OffsetFetchResponse(topics=topics)


async def _group(
    ports: Ports, context: RequestContext, asked: OffsetFetchRequestGroup, require_stable: bool, pace: Pace
) -> OffsetFetchResponseGroup:
    authorizer = ports.authorizer
    if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=Code.GROUP_AUTHORIZATION_FAILED)
    try:
        shard, _ = ports.groups.shard(asked.group_id)
        shard.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=error.code)
    topics = asked.topics
    count = len(shard.offsets.of_group(asked.group_id)) if topics is None else _count(topics)
    is_large = count > PARTITIONS_AT_ONCE
    # The response for a large group is built in steps, from a copy, so that it has all or none of the offsets that are committed
    # together.
    if pace.spend(len(shard.offsets.of_group(asked.group_id)) // COPIED_PER_WORK if is_large else count * PARTITION_WORK):
        await next_turn()
    offsets = shard.fetch(asked.group_id, require_stable=require_stable, is_kept=is_large)
    if not is_large:
        pace = Pace(double_first=True)
    if topics is None:
        topics = await _committed(ports, offsets, pace)
    answers: list[OffsetFetchResponseTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        name, missing = topic.name, Code.NONE
        if context.version >= IDS_FROM and not name:
            try:
                name = topic_name(ports.cluster, topic.topic_id)
            except KafkaError as error:
                missing = error.code
        if not missing and not authorizer.allows(
            context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=asked.topics is not None
        ):
            if asked.topics is None:
                # A request for all topics gets only the topics that the client may describe.
                continue
            missing = Code.TOPIC_AUTHORIZATION_FAILED
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(_partition(index, None, missing) if missing else _of_offset(offsets, name, index))
            if pace.spend(PARTITION_WORK):
                await next_turn()
        # As in Kafka, topics with errors come last in the response.
        (unknown if missing else answers).append(
            OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions)
        )
        if pace.spend(PARTITION_WORK):
            await next_turn()
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=answers + unknown)


async def _committed(ports: Ports, offsets: GroupOffsets, pace: Pace) -> list[OffsetFetchRequestTopics]:
    """Return all partitions of the group that have committed offsets, as if a request had named them."""
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for name, index in list(offsets.committed):
        topic = topics.get(name)
        if topic is None:
            topic = OffsetFetchRequestTopics(name=name, topic_id=topic_id(ports.cluster, name), partition_indexes=[])
            topics[name] = topic
        topic.partition_indexes.append(index)
        if pace.spend(1):
            await next_turn()
    return list(topics.values())


def _of_offset(offsets: GroupOffsets, name: str, index: int) -> OffsetFetchResponsePartitions:
    try:
        return _partition(index, offsets.get(name, index), Code.NONE)
    except KafkaError as error:
        return _partition(index, None, error.code)


def _count(topics: list[OffsetFetchRequestTopics]) -> int:
    """The number of topics and partitions in a request.

    Counts at most `PARTITIONS_AT_ONCE` + 1 topics, which already exceed the limit.
    """
    return sum(1 + len(topic.partition_indexes) for topic in topics[: PARTITIONS_AT_ONCE + 1])


def _partition(index: int, offset: CommittedOffset | None, code: Code) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=code,
    )


def failed(request: OffsetFetchRequest, version: int, code: Code) -> OffsetFetchResponse:
    if version >= GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=g.group_id, topics=[], error_code=code) for g in request.groups]
        )
    if version >= CODE_FROM:
        return OffsetFetchResponse(error_code=code)
    # In version 1 the response has error codes only for partitions.
    topics = [
        OffsetFetchResponseTopic(
            name=t.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=i, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
                )
                for i in t.partition_indexes
            ],
        )
        for t in request.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)


def is_small(ports: Ports, request: OffsetFetchRequest, context: RequestContext) -> bool:
    """Whether a request is for at most `SMALL_ENTRIES` partitions. If so, the response is small."""
    asked = request.groups if context.version >= GROUPS_FROM else [request]
    topics = [group.topics for group in asked]
    return all(t is not None for t in topics) and sum(len(t.partition_indexes) for ts in topics for t in ts or ()) <= SMALL_ENTRIES


API = Declaration(
    key=9,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
    is_small=is_small,
)
