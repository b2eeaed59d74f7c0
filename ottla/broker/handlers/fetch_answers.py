"""What Fetch answers: for one partition beside records, and for all of them together."""

from __future__ import annotations

from ottla.broker.fetch_sessions import NO_SESSION, Asked, Session
from ottla.broker.partitions import Partition, leader_epoch_end
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ottla.storage.steps import Pace, Steps

_NOT_THERE = {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID}


def is_news(asked: Asked, data: PartitionData) -> bool:
    """Whether an incremental fetch (KIP-227) names the partition: something differs from what the client was told last."""
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch is not None
        or data.high_watermark != asked.told_high_watermark
        or data.log_start_offset != asked.told_log_start
    )


def divergence(partition: Partition, asked: Asked) -> PartitionData | None:
    """Where the client's log and this one part, if they do: its last leader epoch has ended before its offset (KIP-595).

    Raises OFFSET_OUT_OF_RANGE for an epoch that is yet to come, and for an offset before the start (Partition.readRecords).
    """
    if asked.last_epoch < 0:
        return None
    partition.log.check_online()
    log = partition.log
    epoch, end_offset = leader_epoch_end(log, asked.last_epoch)
    if epoch < 0 or asked.fetch_offset < log.log_start_offset:
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
    if epoch == asked.last_epoch and asked.fetch_offset <= end_offset:
        return None
    return PartitionData(
        partition_index=asked.key[2],
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        aborted_transactions=None,
        records=b"",
    )


def refusal(index: int, code: Code, *, is_there: bool = False) -> PartitionData:
    """Kafka has an empty list of aborted transactions for a partition that is not there, and none for one that is."""
    aborted: list[AbortedTransaction] | None = None if is_there else []
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=aborted, records=b"")


def response(session: Session | None, answers: list[tuple[Asked, PartitionData]], *, is_whole: bool) -> Steps[FetchResponse]:
    """In the order of the request, only neighbours of one topic together; what is not there stands last.

    Clients give their application the partitions in this order (FetchResponse.toMessage, KafkaApis.handleFetchRequest).
    ``is_whole`` is false for an incremental fetch, which names only what is news.
    """
    pace = Pace()
    there: list[FetchableTopicResponse] = []
    missing: list[FetchableTopicResponse] = []
    for asked, data in answers:
        if pace.is_over(1):
            yield None
        if session is not None:
            if not is_whole and not is_news(asked, data):
                continue
            asked.told_high_watermark, asked.told_log_start = data.high_watermark, data.log_start_offset
            if data.records:
                session.served(asked.key)
        topic_id, name, _ = asked.key
        topics = missing if data.error_code in _NOT_THERE else there
        if not topics or (topics[-1].topic_id, topics[-1].topic) != (topic_id, name):
            topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(data)
    if there and missing and (there[-1].topic_id, there[-1].topic) == (missing[0].topic_id, missing[0].topic):
        there[-1].partitions += missing.pop(0).partitions
    return FetchResponse(session_id=session.session_id if session is not None else NO_SESSION, responses=there + missing)
