"""Checks one batch of a Produce request without appending it: partition, header, CRC and records (LogValidator).

`check_batch` returns the checked batch, or its error. A batch in a transaction is verified afterwards, directly before its append
(`batch_verification`).
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.produce_compression import recompressed, target_of
from ottla.broker.handlers.support.produce_partition import BeforeTheLog, partition_of
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import Allowance
from ottla.protocol.messages.produce import PartitionProduceData, TopicProduceData
from ottla.protocol.record_stream import RecordStream
from ottla.protocol.records import (
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_produced,
    correct_timestamps,
    produced_crc,
)
from ottla.protocol.steps import in_thread
from ottla.protocol.validation import Rules, check_in_steps, check_records
from ottla.storage.config import AS_PRODUCED, LogConfig

ZSTD_FROM = 7
CRC_AT_ONCE_BYTES = 1 << 20
"""Size in bytes above which a batch's CRC is computed in a worker thread."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    cluster: ClusterCommands
    clock: Clock
    counters: Counters
    inflating: InflatingMemory


class CheckedBatch(msgspec.Struct, frozen=True):
    """A batch that may be appended to its partition as long as `is_current` is true."""

    partition: Partition
    config: LogConfig
    """The topic's configs, which the check of the batch used."""
    batch: memoryview
    header: BatchHeader

    @property
    def is_in_transaction(self) -> bool:
        """Whether the batch is in a transaction. As in Kafka, a batch without a producer id is not, even if its transactional bit
        is set."""
        return bool(self.header.attributes & TRANSACTIONAL_BIT) and self.header.producer_id >= 0


class RefusedBatch(msgspec.Struct, frozen=True):
    """A batch's error, and its partition; None if the partition was not found."""

    error: KafkaError
    partition: Partition | None


async def check_batch(
    ports: Ports, context: RequestContext, topic: TopicProduceData, data: PartitionProduceData, allowance: Allowance
) -> CheckedBatch | RefusedBatch:
    """Check a batch. If the topic's configs change during a long check, check it again.

    ``allowance`` limits the inflated bytes of the request. As Kafka does, corrects the batch's timestamps in place.
    """
    partition: Partition | None = None
    left_bytes = allowance.left_bytes
    try:
        crc = await _crc_in_thread(data) if len(data.records or b"") > CRC_AT_ONCE_BYTES else None
        while True:
            partition = None
            partition = partition_of(ports, context, topic, data.index)
            config = partition.log.config
            batch, header = _parsed(context, data, crc)
            max_timestamp_ms = _check_at_once(ports, partition, batch, header, allowance)
            if max_timestamp_ms is not None:
                break
            batch, header, max_timestamp_ms = await _check_long(ports, partition, batch, header, allowance)
            partition = partition_of(ports, context, topic, data.index)
            if partition.log.config == config:
                break
            allowance.left_bytes = left_bytes
    except KafkaError as error:
        return RefusedBatch(error, partition)
    if not config.is_append_time and (max_timestamp_ms != header.max_timestamp_ms or header.attributes & TIMESTAMP_TYPE_BIT):
        header = correct_timestamps(batch, max_timestamp_ms)
    return CheckedBatch(partition, config, batch, header)


def is_current(ports: Ports, context: RequestContext, topic: TopicProduceData, index: int, checked: CheckedBatch) -> bool:
    """Whether the batch's partition and its configs are still those with which the batch was checked."""
    try:
        partition = partition_of(ports, context, topic, index)
    except KafkaError:
        return False
    return partition is checked.partition and partition.log.config == checked.config


async def _crc_in_thread(data: PartitionProduceData) -> int:
    records, crcs = data.records or b"", list[int]()
    await in_thread(lambda: crcs.append(produced_crc(records)))
    return crcs[0]


def _parsed(context: RequestContext, data: PartitionProduceData, crc: int | None) -> tuple[memoryview, BatchHeader]:
    records = data.records
    if records is None:
        raise BeforeTheLog(Code.INVALID_RECORD, "the partition's records are null")
    batch = records if type(records) is memoryview else memoryview(bytearray(records))
    try:
        return batch, check_produced(batch, zstd_allowed=context.version >= ZSTD_FROM, crc=crc)
    except KafkaError as error:
        raise BeforeTheLog(error.code, error.message) from None


def _check_at_once(ports: Ports, partition: Partition, batch: memoryview, header: BatchHeader, allowance: Allowance) -> int | None:
    """Check the records of a small batch; returns their largest timestamp, or None for a batch that `_check_long` must check.

    If the log will refuse a batch for its size, its records are neither checked nor inflated.
    """
    config = partition.log.config
    if config.compression_type != AS_PRODUCED and target_of(config, header) is not None:
        return None
    if not partition.log.accepts_size(len(batch)):
        return header.max_timestamp_ms
    return check_records(batch, header, _rules(ports, partition), allowance)


async def _check_long(
    ports: Ports, partition: Partition, batch: memoryview, header: BatchHeader, allowance: Allowance
) -> tuple[memoryview, BatchHeader, int]:
    """Check a batch of any size, and recompress it if its topic requires that. Returns the batch, its header and largest timestamp.

    As in Kafka, max.message.bytes limits the batch before and after recompression, segment.bytes only after it.
    """
    config, left_bytes = partition.log.config, allowance.left_bytes
    target = target_of(config, header)
    if not partition.log.accepts_size(len(batch)) and (target is None or len(batch) > config.max_message_bytes):
        return batch, header, header.max_timestamp_ms
    max_timestamp_ms = await _check_records_in_steps(ports, batch, header, _rules(ports, partition), allowance)
    if target is not None:
        inflated_bytes = left_bytes - allowance.left_bytes if header.compression else len(batch) - HEADER_BYTES
        batch, header = await recompressed(ports, batch, header, target, inflated_bytes, config.max_message_bytes)
    return batch, header, max_timestamp_ms


def _rules(ports: Ports, partition: Partition) -> Rules:
    log, now_ms = partition.log, ports.clock.now_ms()
    config = log.config
    return Rules(
        partition=log.name,
        keys_wanted=config.is_compacted,
        is_append_time=config.is_append_time,
        earliest_ms=now_ms - config.message_timestamp_before_max_ms,
        latest_ms=now_ms + config.message_timestamp_after_max_ms,
        max_record_bytes=config.max_decompressed_message_bytes,
    )


async def _check_records_in_steps(ports: Ports, batch: memoryview, header: BatchHeader, rules: Rules, allowance: Allowance) -> int:
    """Check the records of a large batch; returns their largest timestamp. Waits for memory from the budget of all requests."""
    stream, memory = RecordStream(batch, header, allowance, max_record_bytes=rules.max_record_bytes), ports.inflating
    await memory.take(stream.memory_bytes)
    left_bytes = allowance.left_bytes
    try:
        checked_ms = await check_in_steps(batch, header, rules, allowance, stream)
    finally:
        memory.give(stream.memory_bytes)
        ports.counters.inflated_bytes += left_bytes - allowance.left_bytes
    return checked_ms
