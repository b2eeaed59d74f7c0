"""Builds Fetch's response, and its partitions without records."""

from __future__ import annotations

from ottla.broker.handlers.support.current_leaders import leader_for_fetch
from ottla.broker.limits.fetch_sessions import NO_SESSION, ConsumerFetchSession, RequestedPartition
from ottla.broker.partitions.partitions import Partition, leader_epoch_end
from ottla.coordinator.replication.leader import divergence
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.steps import Pace, next_turn

_NOT_THERE = {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID}


def is_news(requested: RequestedPartition, data: PartitionData) -> bool:
    """Whether the response of an incremental fetch (KIP-227) must contain the partition, because the partition has changed."""
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
        or data.high_watermark != requested.sent_high_watermark
        or data.log_start_offset != requested.sent_log_start_offset
    )


def diverging_answer(partition: Partition, requested: RequestedPartition) -> PartitionData | None:
    """The response for a partition in which the client's log diverges from the leader's, with the epoch and offset of the
    divergence; None if the logs agree (KIP-595).

    Raises OFFSET_OUT_OF_RANGE if the client's last epoch is unknown, or its offset below the log start offset
    (Partition.readRecords).
    """
    if requested.last_epoch < 0:
        return None
    partition.log.check_online()
    log = partition.log
    diverging = divergence(requested.last_epoch, requested.fetch_offset, leader_epoch_end(partition, requested.last_epoch))
    if requested.fetch_offset < log.log_start_offset:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
    if diverging is None:
        return None
    data = _without_records(partition)
    data.diverging_epoch = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
    return data


def read_elsewhere(partition: Partition, replica_id: int) -> PartitionData:
    """The response that redirects a consumer to a follower which has the requested offset (KIP-392)."""
    data = _without_records(partition)
    data.preferred_read_replica = replica_id
    return data


def _without_records(partition: Partition) -> PartitionData:
    log = partition.log
    return PartitionData(
        partition_index=log.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def not_here(index: int, error: KafkaError, *, names_leader: bool) -> PartitionData:
    """The response for a partition that this broker does not serve, with the leader if another broker leads it (KIP-951)."""
    data = refusal(index, error.code)
    if names_leader:
        data.current_leader = leader_for_fetch(error)
    return data


def refusal(index: int, code: Code, *, is_there: bool = False) -> PartitionData:
    """The response for a refused partition. As in Kafka, aborted transactions are None for an existing partition, else empty."""
    aborted: list[AbortedTransaction] | None = None if is_there else []
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=aborted, records=b"")


async def response(
    session: ConsumerFetchSession | None,
    answers: list[tuple[RequestedPartition, PartitionData]],
    *,
    is_whole: bool,
    is_sent: bool = True,
) -> FetchResponse:
    """Build the response in the order of the request. Adjacent partitions of a topic share a topic entry; unknown topics come last.

    Applications get the partitions in this order (FetchResponse.toMessage, KafkaApis.handleFetchRequest). ``is_whole`` is False for
    an incremental fetch, whose response only contains changed partitions. ``is_sent``: update the session, because the response
    will be sent.
    """
    pace = Pace()
    there: list[FetchableTopicResponse] = []
    missing: list[FetchableTopicResponse] = []
    for requested, data in answers:
        if pace.spend(1):
            await next_turn()
        if session is not None:
            if not is_whole and not is_news(requested, data):
                continue
            if is_sent:
                requested.sent_high_watermark, requested.sent_log_start_offset = data.high_watermark, data.log_start_offset
                if data.records:
                    session.served(requested.key)
        topic_id, name, _ = requested.key
        topics = missing if data.error_code in _NOT_THERE else there
        if not topics or (topics[-1].topic_id, topics[-1].topic) != (topic_id, name):
            topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(data)
    if there and missing and (there[-1].topic_id, there[-1].topic) == (missing[0].topic_id, missing[0].topic):
        there[-1].partitions += missing.pop(0).partitions
    return FetchResponse(session_id=session.session_id if session is not None else NO_SESSION, responses=there + missing)
