"""What a fetch tells of one partition, apart from its records."""

from __future__ import annotations

from ottla.broker.fetch_sessions import Asked
from ottla.broker.partitions import Partition, leader_epoch_end
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData


def is_news(asked: Asked, data: PartitionData) -> bool:
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
        diverging_epoch=EpochEndOffset(epoch, end_offset),
        aborted_transactions=None,
        records=b"",
    )


def refused(index: int, code: Code, *, is_there: bool = False) -> PartitionData:
    """Kafka has an empty list of aborted transactions for a partition that is not there, and none for one that is."""
    aborted: list[AbortedTransaction] | None = None if is_there else []
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=aborted, records=b"")
