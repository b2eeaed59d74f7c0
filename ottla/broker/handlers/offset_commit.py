"""OffsetCommit, versions 2 to 10: stores a group's offsets, from a member or from a client that assigns partitions itself.

- 2 to 4: the request has the retention time of the offsets; since 5 (KIP-211) the broker's setting applies.
- 6 (KIP-320): leader epochs are stored with offsets.
- 7 (KIP-345): static members, which may be fenced.
- 9 (KIP-848): an unknown group gets GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION.
- 10: topics by id.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import committed_topic, refused_first
from ottla.broker.handlers.support.each import made
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.group.records import CommittedOffset
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition

GROUP_ID_NOT_FOUND_FROM = 9
IDS_FROM = 10
Topics = dict[Hashable, OffsetCommitResponseTopic]
PARTITION_WORK = 5
"""Estimated time to commit an offset, excluding its metadata, in units of 2 us."""
METADATA_CHARACTERS = 500
"""Number of characters of an offset's metadata that add one unit to `PARTITION_WORK`."""
LAST_MS = (1 << 63) - 1
"""The latest time in ms that fits into a record."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    groups: Groups
    cluster: ClusterCommands
    clock: Clock


async def handle(ports: Ports, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Commit many offsets in several batches. If a batch fails, only its partitions get the error code."""
    now_ms = ports.clock.steady_ms()
    expire_ms = min(now_ms + request.retention_time_ms, LAST_MS) if request.retention_time_ms >= 0 else -1
    refused: Topics = {}
    asked: Topics = {}
    waiting: dict[TopicPartition, CommittedOffset] = {}
    answers: list[tuple[TopicPartition, OffsetCommitResponsePartition]] = []
    pace = Pace()
    for topic in request.topics:
        name = committed_topic(ports, context, topic, ids_from=IDS_FROM)
        if name not in ports.cluster.state.topics:
            # As in Kafka, a topic that does not exist is in the response even if the request names no partitions of it.
            _answer_of(refused, topic)
        for p in topic.partitions:
            answer = OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)
            if isinstance(name, Code):
                answer.error_code = name
                _answer_of(refused, topic).append(answer)
            elif not ports.partitions.exists(name, p.partition_index):
                _answer_of(refused, topic).append(answer)
            else:
                _answer_of(asked, topic).append(answer)
                where = (name, p.partition_index)
                answers.append((where, answer))
                waiting[where] = CommittedOffset(
                    offset=p.committed_offset,
                    leader_epoch=p.committed_leader_epoch,
                    metadata=p.committed_metadata or "",
                    commit_ms=now_ms,
                    expire_ms=expire_ms,
                )
            if pace.spend(PARTITION_WORK + len(p.committed_metadata or "") // METADATA_CHARACTERS):
                _commit(ports, context, request, waiting, answers)
                waiting, answers = {}, []
                await next_turn()
        if pace.spend(1):
            await next_turn()
    _commit(ports, context, request, waiting, answers)
    return await made(lambda: OffsetCommitResponse(topics=refused_first(refused, asked)), len(request.topics))


def _answer_of(topics: Topics, asked: OffsetCommitRequestTopic) -> list[OffsetCommitResponsePartition]:
    key = (asked.name, asked.topic_id)
    if key not in topics:
        topics[key] = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=[])
    return topics[key].partitions


def _commit(
    ports: Ports,
    context: RequestContext,
    request: OffsetCommitRequest,
    offsets: dict[TopicPartition, CommittedOffset],
    answers: list[tuple[TopicPartition, OffsetCommitResponsePartition]],
) -> None:
    """Check member and generation, and append the offsets, in one synchronous call. Sets the error codes of ``answers``."""
    codes: dict[TopicPartition, Code] = {}
    try:
        # OffsetCommit allows the empty group id (KIP-289).
        shard, runtime = ports.groups.shard(request.group_id)
        result = shard.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            offsets,
            ports.clock.steady_ms(),
            transactional=False,
            has_new_error_codes=context.version >= GROUP_ID_NOT_FOUND_FROM,
        )
        codes = runtime.execute(result)
    except KafkaError as error:
        codes = dict.fromkeys(offsets, error.code)
    for where, answer in answers:
        answer.error_code = codes[where]


def failed(request: OffsetCommitRequest, version: int, code: Code) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            OffsetCommitResponseTopic(
                name=t.name,
                topic_id=t.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code) for p in t.partitions
                ],
            )
            for t in request.topics
        ],
    )


API = Declaration(
    key=8,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, READ TOPIC"),
)
