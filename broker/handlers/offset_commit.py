"""OffsetCommit, versions 2 to 10 (KIP-98, KIP-211, KIP-345, KIP-848): topics by id from version 10 on."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import topic_name
from coordinator.group.offsets import TopicPartition
from coordinator.group.records import CommittedOffset
from protocol.errors import Code, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

IDS_FROM = 10
LAST_MS = (1 << 63) - 1
"""The latest time that a record has room for."""


def handle(context: Context, request: OffsetCommitRequest) -> OffsetCommitResponse:
    broker, now_ms = context.broker, context.broker.env.steady_ms()
    expire_ms = min(now_ms + request.retention_time_ms, LAST_MS) if request.retention_time_ms >= 0 else -1
    offsets: dict[TopicPartition, CommittedOffset] = {}
    names: list[str | Code] = []
    for topic in request.topics:
        name = _name(context, topic)
        names.append(name)
        if isinstance(name, Code):
            continue
        for p in topic.partitions:
            if broker.partitions.find(name, p.partition_index) is not None:
                offsets[name, p.partition_index] = CommittedOffset(
                    p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "", now_ms, expire_ms
                )
    codes: dict[TopicPartition, Code] = {}
    try:
        # The empty group id is one like any other here; JoinGroup is what refuses it (KIP-289).
        shard, runtime = broker.groups.shard(request.group_id)
        result = shard.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            offsets,
            now_ms,
            transactional=False,
            version=context.version,
        )
        codes = runtime.execute(result)
    except KafkaError as error:
        codes = dict.fromkeys(offsets, error.code)
    topics = []
    for topic, name in zip(request.topics, names, strict=True):
        answers = [
            OffsetCommitResponsePartition(
                p.partition_index,
                name if isinstance(name, Code) else codes.get((name, p.partition_index), Code.UNKNOWN_TOPIC_OR_PARTITION),
            )
            for p in topic.partitions
        ]
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
    return OffsetCommitResponse(0, topics)


def _name(context: Context, topic: OffsetCommitRequestTopic) -> str | Code:
    if context.version < IDS_FROM:
        return topic.name
    try:
        return topic_name(context.broker, topic.topic_id)
    except KafkaError as error:
        return error.code


def failed(request: OffsetCommitRequest, version: int, code: Code) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        0,
        [
            OffsetCommitResponseTopic(
                t.name, t.topic_id, [OffsetCommitResponsePartition(p.partition_index, code) for p in t.partitions]
            )
            for t in request.topics
        ],
    )


API = Declaration(8, handle, failed)
