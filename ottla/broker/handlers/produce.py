"""Produce, versions 3 to 13 (KIP-98): appends batches to partitions that this broker leads, also in transactions.

- 3: record batches of magic 2 with producer id, epoch and sequence; the request has the transactional id.
- 5 (KIP-107): the response has the log start offset.
- 7 (KIP-110): zstd may be used; in an older version such a batch is refused.
- 8 (KIP-467): the response has the refused records with the reasons.
- 11 (KIP-890): TRANSACTION_ABORTABLE; older clients get INVALID_TXN_STATE.
- 12 (KIP-890): the partition is added to the transaction by its first batch, without AddPartitionsToTxn.
- 13 (KIP-516): topics by id.

ApiVersions also offers versions 0 to 2, for librdkafka, but as in Kafka requests of these versions are refused
(`registry.BROKER_APIS`). With acks=0 there is no response. With acks=all the response waits for the in-sync replicas.

Kafka authorises WRITE on the transactional id of a transactional request, and WRITE on each topic.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.broker.apis.api import Declaration, RequestContext, WaitsFor
from ottla.broker.apis.authorisation import authorisations, check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.verification import Verification
from ottla.broker.handlers.support.batch_verification import IMPLICIT_ADD_FROM, join_partitions, verdict_on_refused, verify
from ottla.broker.handlers.support.current_leaders import with_produce_endpoints
from ottla.broker.handlers.support.produce_compression import recompressed, target_of
from ottla.broker.handlers.support.produce_partition import BeforeTheLog, partition_of
from ottla.broker.handlers.support.produce_refusals import (
    ACKS,
    has_transactional_records,
    refused_partition,
    transactional_producer_of,
    whole_refusal,
)
from ottla.broker.handlers.support.refused_batch import report_refused
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.partitions.replication_wait import AppendedTo, replicated
from ottla.coordinator.replication.leader import ACKS_ALL
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import Allowance
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
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
from ottla.protocol.steps import Pace, Pause, in_thread, next_turn
from ottla.protocol.validation import Rules, check_in_steps, check_records
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.storage.config import AS_PRODUCED

ZSTD_FROM = 7
PARTITION_WORK = 15
WORK_BYTES_SHIFT = 8
"""The cost of one partition in the units of `Pace`: `PARTITION_WORK`, and one unit for each 256 bytes of its batch and of the
inflated payload."""
CRC_AT_ONCE_BYTES = 1 << 20
"""The CRC of a larger batch is computed in a worker thread."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    cluster: ClusterCommands
    live_config: LiveConfig
    clock: Clock
    timers: Timers
    barrier: Barrier
    counters: Counters
    inflating: InflatingMemory
    verification: Verification
    transaction_listener: TransactionListener | None

    def advertised(self, listener: str) -> tuple[str, int]: ...


class _Asked(msgspec.Struct, kw_only=True):
    """The values that all batches of one request share."""

    ports: Ports
    context: RequestContext
    transactional_id: str | None
    acks: int
    allowance: Allowance
    has_waited: bool = False
    """Whether the request has waited for its transaction's coordinator (`Verification.join`)."""
    appended: list[AppendedTo] = []
    results: list[PartitionProduceResponse] = []
    """The results in the response of the batches in ``appended``."""


async def handle(ports: Ports, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    asked = _Asked(
        ports=ports,
        context=context,
        transactional_id=request.transactional_id,
        acks=request.acks,
        allowance=Allowance(ports.live_config.settings.ottla_request_inflated_max_bytes),
    )
    leaderships_lost = ports.barrier.leaderships_lost
    if _is_simple(ports, context, request):
        topic = request.topic_data[0]
        results = [await _append_one(asked, topic, topic.partition_data[0])]
        response = ProduceResponse([TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)])
    else:
        response = await _append_all(asked, request)
    if not request.acks:
        return None
    if ports.cluster.is_alone:
        return response
    if request.acks == ACKS_ALL:
        await _replicated(asked, leaderships_lost, request.timeout_ms)
    return with_produce_endpoints(ports, context.listener, response)


def _is_simple(ports: Ports, context: RequestContext, request: ProduceRequest) -> bool:
    """Whether the request has one batch and needs no check as a whole (`whole_refusal`)."""
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1 or request.acks not in ACKS:
        return False
    topic = request.topic_data[0]
    return request.transactional_id is not None or transactional_producer_of(ports, context, topic, topic.partition_data[0]) is None


async def _append_all(asked: _Asked, request: ProduceRequest) -> ProduceResponse:
    """Check the request as a whole, then append one batch after the other. Other work runs between those of a large request."""
    pace, allowance, work = Pace(), asked.allowance, 0
    refused = await whole_refusal(asked.ports, asked.context, request, pace)
    if request.transactional_id is not None and refused is Code.NONE:
        asked.has_waited = await join_partitions(asked.ports, asked.context, request, pace)
    responses = []
    for topic in request.topic_data:
        # The last entry of a repeated partition wins.
        last: dict[int, PartitionProduceData] = {}
        for data in topic.partition_data:
            last[data.index] = data
            if pace.spend(1):
                await next_turn()
        results: list[PartitionProduceResponse] = []
        for index, data in last.items():
            # Pause only before the second and later partitions, so that a request with one small batch has no pause.
            if pace.spend(work):
                await next_turn()
            left_bytes = allowance.left_bytes
            if refused is not Code.NONE:
                results.append(PartitionProduceResponse(index=index, error_code=refused, base_offset=-1))
            else:
                results.append(await _append_one(asked, topic, data))
            work = PARTITION_WORK + (len(data.records or b"") + left_bytes - allowance.left_bytes >> WORK_BYTES_SHIFT)
        if results:
            responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
    return ProduceResponse(responses)


async def _replicated(asked: _Asked, leaderships_lost: int, timeout_ms: int) -> None:
    """Wait until all in-sync replicas have the batches (DelayedProduce). The result of each depends only on its own partition."""
    codes = await replicated(asked.ports.barrier, asked.ports.timers, asked.appended, leaderships_lost, timeout_ms)
    for (partition, _), result, code in zip(asked.appended, asked.results, codes, strict=True):
        result.error_code = code
        if code is Code.NOT_LEADER_OR_FOLLOWER:
            result.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.log.leader_epoch)


async def _append_one(asked: _Asked, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
    """Check, verify and append one batch; returns its result.

    The batch is checked again if its topic's configs have changed during a long check, and after the coordinator of its transaction
    has answered.
    """
    ports, context, allowance = asked.ports, asked.context, asked.allowance
    while True:
        partition: Partition | None = None
        left_bytes, is_checked = allowance.left_bytes, False
        try:
            is_large = len(data.records or b"") > CRC_AT_ONCE_BYTES
            crc = await _crc_aside(data) if is_large else None
            partition = partition_of(ports, context, topic, data.index)
            batch, header = _batch(context, data, crc)
            max_timestamp_ms = _check_at_once(asked, partition, batch, header)
            if max_timestamp_ms is None:
                config = partition.log.config
                batch, header, max_timestamp_ms = await _check_in_steps(asked, partition, batch, header)
                partition = partition_of(ports, context, topic, data.index)
                if partition.log.config != config:
                    allowance.left_bytes = left_bytes
                    continue
            is_checked = True
            outcome: PartitionProduceResponse | Pause[None] | KafkaError = _append(
                asked, partition, batch, header, max_timestamp_ms
            )
        except KafkaError as error:
            outcome = error if is_checked else _verdict(asked, data, partition, error)
        if isinstance(outcome, PartitionProduceResponse):
            return outcome
        if isinstance(outcome, KafkaError):
            _report(asked, data, partition, outcome)
            return refused_partition(data.index, outcome, partition)
        allowance.left_bytes = left_bytes
        await outcome
        asked.has_waited = True


def _verdict(asked: _Asked, data: PartitionProduceData, partition: Partition | None, error: KafkaError) -> KafkaError | Pause[None]:
    context, transactional_id, has_waited = asked.context, asked.transactional_id, asked.has_waited
    return verdict_on_refused(asked.ports, context, transactional_id, partition, data.records, error, has_waited=has_waited)


def _report(asked: _Asked, data: PartitionProduceData, partition: Partition | None, error: KafkaError) -> None:
    """Report a refused batch to the listener of transaction histories."""
    listener = asked.ports.transaction_listener
    if asked.transactional_id and listener is not None:
        report_refused(listener, asked.ports.clock, asked.context, asked.transactional_id, data, partition, error.code)


async def _crc_aside(data: PartitionProduceData) -> int:
    """The CRC of a large batch, computed in a worker thread."""
    records, crcs = data.records or b"", list[int]()
    await in_thread(lambda: crcs.append(produced_crc(records)))
    return crcs[0]


def _batch(context: RequestContext, data: PartitionProduceData, crc: int | None = None) -> tuple[memoryview, BatchHeader]:
    """The batch and its header, after every check that does not read records. Raises `BeforeTheLog`."""
    records = data.records
    if records is None:
        raise BeforeTheLog(Code.INVALID_RECORD, "the partition's records are null")
    batch = records if type(records) is memoryview else memoryview(bytearray(records))
    try:
        return batch, check_produced(batch, zstd_allowed=context.version >= ZSTD_FROM, crc=crc)
    except KafkaError as error:
        raise BeforeTheLog(error.code, error.message) from None


def _check_at_once(asked: _Asked, partition: Partition, batch: memoryview, header: BatchHeader) -> int | None:
    """Check the records of a small batch; returns their largest timestamp, or None for a batch that `_check_in_steps` must check.

    The records of a batch that the log will refuse for its size are neither checked nor inflated.
    """
    config = partition.log.config
    if config.compression_type != AS_PRODUCED and target_of(config, header) is not None:
        return None
    if not partition.log.accepts_size(len(batch)):
        return header.max_timestamp_ms
    return check_records(batch, header, _rules(asked.ports, partition), asked.allowance)


async def _check_in_steps(
    asked: _Asked, partition: Partition, batch: memoryview, header: BatchHeader
) -> tuple[memoryview, BatchHeader, int]:
    """Check a batch of any size, and recompress it if its topic demands that. Returns the batch, its header and largest timestamp.

    As in Kafka, max.message.bytes limits the batch before and after recompression, segment.bytes only the stored batch.
    """
    ports, allowance = asked.ports, asked.allowance
    config, left_bytes = partition.log.config, allowance.left_bytes
    target = target_of(config, header)
    if not partition.log.accepts_size(len(batch)) and (target is None or len(batch) > config.max_message_bytes):
        return batch, header, header.max_timestamp_ms
    max_timestamp_ms = await _check_aside(ports, batch, header, _rules(ports, partition), allowance)
    if target is not None:
        inflated_bytes = left_bytes - allowance.left_bytes if header.compression else len(batch) - HEADER_BYTES
        batch, header = await recompressed(ports, batch, header, target, inflated_bytes, config.max_message_bytes)
    return batch, header, max_timestamp_ms


def _append(
    asked: _Asked, partition: Partition, batch: memoryview, header: BatchHeader, max_timestamp_ms: int
) -> PartitionProduceResponse | Pause[None]:
    """Verify and append a batch whose records were checked. May return the `Pause` of `verify`. Raises `KafkaError`."""
    log = partition.log
    if not log.config.is_append_time and (max_timestamp_ms != header.max_timestamp_ms or header.attributes & TIMESTAMP_TYPE_BIT):
        header = correct_timestamps(batch, max_timestamp_ms)
    context, transactional_id = asked.context, asked.transactional_id
    # As in Kafka, a batch without a producer id belongs to no transaction, even if its transactional bit is set.
    if transactional_id is not None and header.attributes & TRANSACTIONAL_BIT and header.producer_id >= 0:
        pause = verify(asked.ports, context, transactional_id, partition, header, has_waited=asked.has_waited)
        if pause is not None:
            return pause
    implicit_add = context.version >= IMPLICIT_ADD_FROM and transactional_id is not None
    appended = partition.append(batch, header, implicit_add=implicit_add, acks=asked.acks)
    result = PartitionProduceResponse(
        index=log.partition,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=log.log_start_offset,
    )
    if asked.acks == ACKS_ALL and not asked.ports.cluster.is_alone:
        asked.appended.append(AppendedTo(partition, appended.last_offset + 1))
        asked.results.append(result)
    return result


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


async def _check_aside(ports: Ports, batch: memoryview, header: BatchHeader, rules: Rules, allowance: Allowance) -> int:
    """Check a large batch in steps; returns its largest timestamp. Waits for memory from the shared budget."""
    stream, memory = RecordStream(batch, header, allowance, max_record_bytes=rules.max_record_bytes), ports.inflating
    await memory.take(stream.memory_bytes)
    left_bytes = allowance.left_bytes
    try:
        checked_ms = await check_in_steps(batch, header, rules, allowance, stream)
    finally:
        memory.give(stream.memory_bytes)
        ports.counters.inflated_bytes += left_bytes - allowance.left_bytes
    return checked_ms


def failed(request: ProduceRequest, version: int, code: Code) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        [
            TopicProduceResponse(
                name=t.name,
                topic_id=t.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1) for p in t.partition_data
                ],
            )
            for t in request.topic_data
        ]
    )


def _authorise(authorizer: RequestAuthorizer, request: ProduceRequest, context: RequestContext) -> None:
    if has_transactional_records(request):
        if request.transactional_id is None:
            raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        check(authorizer, context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)


API = Declaration(
    key=0,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID, WRITE TOPIC"),
    waits_for=WaitsFor.DURABILITY,
    authorise=_authorise,
    checks_itself=True,
)
