"""ListOffsets, versions 1 to 11 (KIP-79, KIP-98, KIP-207, KIP-734, KIP-405).

Timestamps below zero are questions: -1 the end (the last stable offset for read_committed), -2 the start, -3 the
largest timestamp, -4 the local start, -5 the end of tiered storage (there is none: -1).
"""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.partitions import Partition, check_leader_epoch
from protocol.errors import Code, KafkaError
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from storage.reading import TimestampedOffset, leader_epoch_at_start, offset_for_timestamp, offset_of_max_timestamp

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_NOTHING = TimestampedOffset(-1, -1, -1)


def handle(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed = request.isolation_level == 1
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            try:
                if asked.timestamp < 0 and context.version < _SINCE.get(asked.timestamp, 1 << 15):
                    raise KafkaError(Code.UNSUPPORTED_VERSION)
                partition = context.broker.partitions.get(topic.name, asked.partition_index)
                check_leader_epoch(partition, asked.current_leader_epoch)
                found = _look_up(partition, asked, committed=committed)
                answers.append(
                    ListOffsetsPartitionResponse(asked.partition_index, 0, found.timestamp_ms, found.offset, found.leader_epoch)
                )
            except KafkaError as error:
                answers.append(ListOffsetsPartitionResponse(asked.partition_index, error.code))
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(0, topics)


def _look_up(partition: Partition, asked: ListOffsetsPartition, *, committed: bool) -> TimestampedOffset:
    log = partition.log
    bound = log.last_stable_offset if committed else log.high_watermark
    epoch = max(log.epochs.latest, 0)
    if asked.timestamp == LATEST:
        return TimestampedOffset(-1, bound, epoch)
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampedOffset(-1, log.log_start_offset, max(leader_epoch_at_start(log), 0))
    if asked.timestamp == LATEST_TIERED:
        return _NOTHING
    if asked.timestamp == MAX_TIMESTAMP:
        return offset_of_max_timestamp(log, bound) or _NOTHING
    return offset_for_timestamp(log, asked.timestamp, bound) or _NOTHING


def failed(request: ListOffsetsRequest, version: int, code: Code) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        0,
        [
            ListOffsetsTopicResponse(t.name, [ListOffsetsPartitionResponse(p.partition_index, code) for p in t.partitions])
            for t in request.topics
        ],
    )


API = Declaration(2, handle, failed)
