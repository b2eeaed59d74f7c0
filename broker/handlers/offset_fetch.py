"""OffsetFetch, versions 1 to 10 (KIP-98, KIP-447, KIP-709): many groups from version 8 on, topics by id from 10 on."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import topic_id, topic_name
from coordinator.group.records import CommittedOffset
from protocol.errors import Code, KafkaError
from protocol.messages.offset_fetch import (
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
from protocol.primitives import NO_UUID

GROUPS_FROM = 8
IDS_FROM = 10


def handle(context: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if context.version >= GROUPS_FROM:
        return OffsetFetchResponse(groups=[_group(context, group, request.require_stable) for group in request.groups])
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(t.name, NO_UUID, t.partition_indexes) for t in request.topics]
    answer = _group(context, OffsetFetchRequestGroup(request.group_id, topics=topics), request.require_stable)
    return OffsetFetchResponse(
        0,
        [
            OffsetFetchResponseTopic(
                t.name,
                [
                    OffsetFetchResponsePartition(
                        p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
                    )
                    for p in t.partitions
                ],
            )
            for t in answer.topics
        ],
        answer.error_code,
    )


def _group(context: Context, asked: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    broker = context.broker
    try:
        shard, _ = broker.groups.shard(asked.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(asked.group_id, [], error.code)
    topics = asked.topics
    if topics is None:
        committed: dict[str, list[int]] = {}
        for name, index in sorted(shard.offsets.of_group(asked.group_id)):
            committed.setdefault(name, []).append(index)
        topics = [OffsetFetchRequestTopics(name, topic_id(broker, name), indexes) for name, indexes in committed.items()]
    answers: list[OffsetFetchResponseTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        name, missing = topic.name, Code.NONE
        if context.version >= IDS_FROM and not name:
            try:
                name = topic_name(broker, topic.topic_id)
            except KafkaError as error:
                missing = error.code
        partitions = []
        for index in topic.partition_indexes:
            code, offset = missing, None
            if missing is Code.NONE:
                try:
                    offset = shard.fetch(asked.group_id, name, index, require_stable=require_stable)
                except KafkaError as error:
                    code = error.code
            partitions.append(_partition(index, offset, code))
        # Topics whose ids nobody knows come last, as in Kafka.
        (unknown if missing else answers).append(OffsetFetchResponseTopics(name, topic.topic_id, partitions))
    return OffsetFetchResponseGroup(asked.group_id, answers + unknown)


def _partition(index: int, offset: CommittedOffset | None, code: Code) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(index, -1, -1, "", code)
    return OffsetFetchResponsePartitions(index, offset.offset, offset.leader_epoch, offset.metadata, code)


def failed(request: OffsetFetchRequest, version: int, code: Code) -> OffsetFetchResponse:
    return OffsetFetchResponse(0, [], code, [OffsetFetchResponseGroup(g.group_id, [], code) for g in request.groups])


API = Declaration(9, handle, failed, is_bulky=True)
