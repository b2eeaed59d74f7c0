"""ListOffsets, versions 1 to 11 (KIP-79): finds the offset of a timestamp, or the start or end of a log.

Timestamps below zero have special meanings:

- -1, from version 1: the high watermark; for read_committed (since version 2, KIP-98) the last stable offset.
- -2, from version 1: the log start offset.
- -3, from version 7 (KIP-734): the record with the largest timestamp.
- -4, from version 8 (KIP-405): the start of the log on local disks; in ottla the log start offset.
- -5, from version 9 (KIP-1005): the end of the log in tiered storage. ottla has none, and returns -1.
- -6, from version 11 (KIP-1023): the start of the log that is not in tiered storage yet. ottla returns -1.

Version 4 (KIP-320) compares leader epochs. Since version 5 (KIP-207) a newly elected leader that does not know the high watermark
yet returns OFFSET_NOT_AVAILABLE. Version 10 (KIP-1075) has a timeout for tiered storage, which is ignored. Followers, and tools
with replica id -2, see the whole log, also above the high watermark. Tools may contact any replica.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.partitions.disk_errors import note_damage
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.replication.leader import check_leader_epoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.storage.reading import TimestampedOffset, leader_epoch_at_start, offset_for_timestamp, offset_of_max_timestamp

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
CONSUMER, DEBUGGING = -1, -2
"""Replica ids of clients: a consumer, and a tool, which may contact any replica (ListOffsetsRequest)."""
PARTITION_WORK = 3
"""Estimated time to handle a partition without looking up its offset, in units of 2 us."""
NOT_AVAILABLE_FROM = 5
"""The first version with OFFSET_NOT_AVAILABLE (KIP-207). Older versions get LEADER_NOT_AVAILABLE."""
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NOTHING = TimestampedOffset(-1, -1, -1)


Answer = TimestampedOffset | KafkaError


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions


async def handle(ports: Ports, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    """As in Kafka, a repeated partition gets only one result, with INVALID_REQUEST."""
    if request.isolation_level not in (0, 1):
        return failed(request, context.version, Code.INVALID_REQUEST)
    committed = request.isolation_level == 1
    pace = Pace()
    times: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for asked in topic.partitions:
            times[topic.name, asked.partition_index] += 1
            if pace.spend(1):
                await next_turn()
    topics: list[ListOffsetsTopicResponse] = []
    denied: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        if not ports.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
            denied.append(_refused(topic, Code.TOPIC_AUTHORIZATION_FAILED))
            continue
        answers = []
        for asked in topic.partitions:
            if pace.spend(PARTITION_WORK):
                await next_turn()
            where = (topic.name, asked.partition_index)
            if times[where] != 1:
                if times[where]:
                    answers.append(
                        ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=Code.INVALID_REQUEST)
                    )
                times[where] = 0
                continue
            answer = await _answer(ports, context, topic.name, asked, request.replica_id, committed=committed)
            if isinstance(answer, KafkaError):
                code = answer.code
                if code is Code.OFFSET_NOT_AVAILABLE and context.version < NOT_AVAILABLE_FROM:
                    code = Code.LEADER_NOT_AVAILABLE
                answers.append(ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code))
            else:
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        error_code=0,
                        timestamp=answer.timestamp_ms,
                        offset=answer.offset,
                        leader_epoch=answer.leader_epoch,
                    )
                )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics + denied)


async def _answer(
    ports: Ports, context: RequestContext, topic: str, asked: ListOffsetsPartition, replica_id: int, *, committed: bool
) -> Answer:
    try:
        if asked.timestamp < 0 and context.version < _SINCE.get(asked.timestamp, 1 << 15):
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        partition = ports.partitions.replica(topic, asked.partition_index)
        check_leader_epoch(partition.log.leader_epoch, asked.current_leader_epoch)
        if replica_id != DEBUGGING:
            partition.check_leads()
        partition.log.check_online()
    except KafkaError as error:
        return error
    try:
        return await _look_up(partition, asked, committed=committed, to_end=replica_id != CONSUMER)
    except KafkaError as error:
        note_damage(partition.log)
        return error
    except OSError as error:
        return partition.unreadable(error)


async def _look_up(partition: Partition, asked: ListOffsetsPartition, *, committed: bool, to_end: bool) -> TimestampedOffset:
    """The requested offset of a partition. ``to_end``: the client, a follower or a tool, also sees records above the high
    watermark."""
    log = partition.log
    bound = log.log_end_offset if to_end else log.last_stable_offset if committed else log.high_watermark
    epoch = max(log.epochs.latest, 0)
    if asked.timestamp == LATEST:
        if not to_end and log.high_watermark < partition.leader.start_offset:
            # A new leader does not know yet whether its predecessor's high watermark was higher
            # (Partition.fetchOffsetForTimestamp).
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
        return TimestampedOffset(-1, bound, epoch)
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampedOffset(-1, log.log_start_offset, max(leader_epoch_at_start(log), 0))
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    if asked.timestamp == MAX_TIMESTAMP:
        return (await offset_of_max_timestamp(log, bound)) or _NOTHING
    return (await offset_for_timestamp(log, asked.timestamp, bound)) or _NOTHING


def failed(request: ListOffsetsRequest, version: int, code: Code) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[_refused(topic, code) for topic in request.topics],
    )


def _refused(topic: ListOffsetsTopic, code: Code) -> ListOffsetsTopicResponse:
    partitions = [ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code) for p in topic.partitions]
    return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)


API = Declaration(
    key=2,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE TOPIC", by_handler=True),
)
