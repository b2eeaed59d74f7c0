"""Produce, versions 3 to 13 (KIP-98): appends batches to partitions that this broker leads, also in transactions.

- 3: record batches of magic 2 with producer id, epoch and sequence; the request has the transactional id.
- 5 (KIP-107): the response has the log start offset.
- 7 (KIP-110): zstd may be used; in an older version such a batch is refused.
- 8 (KIP-467): the response has the refused records with the reasons.
- 11 (KIP-890): TRANSACTION_ABORTABLE; older clients get INVALID_TXN_STATE.
- 12 (KIP-890): the partition is added to the transaction by its first batch, without AddPartitionsToTxn.
- 13 (KIP-516): topics by id.

ApiVersions also offers versions 0 to 2, for librdkafka, but as in Kafka requests of these versions are refused
(`registry.BROKER_APIS`). With acks=0 there is no response. With acks=all the response waits for the in-sync replicas
(`produce_replication`).

Kafka authorises WRITE on the transactional id of a transactional request, and WRITE on each topic.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.verification import Verification
from ottla.broker.handlers.support.batch_verification import IMPLICIT_ADD_FROM, join_partitions, verdict_on_refused, verify
from ottla.broker.handlers.support.produce_compression import recompressed, target_of
from ottla.broker.handlers.support.produce_partition import BeforeTheLog, partition_of
from ottla.broker.handlers.support.produce_refusals import ACKS, refused_partition, transactional_producer_of, whole_refusal
from ottla.broker.handlers.support.produce_replication import Answer, when_replicated
from ottla.broker.handlers.support.refused_batch import report_refused
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import Allowance
from ottla.protocol.messages.produce import (
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
from ottla.protocol.steps import Pace, Pause, Steps, run_first_step
from ottla.protocol.validation import Rules, check_in_steps, check_records
from ottla.storage.config import AS_PRODUCED

ZSTD_FROM = 7
PARTITION_WORK = 15
WORK_BYTES_SHIFT = 8
"""The cost of one partition in the units of `Pace`: `PARTITION_WORK`, and one unit for each 256 bytes of its batch and of the
inflated payload."""
CRC_AT_ONCE_BYTES = 1 << 20
"""The CRC of a larger batch is computed in a worker thread."""


class Ports(Protocol):
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


def handle(ports: Ports, request: ProduceRequest, context: RequestContext) -> Answer | Steps[Answer]:
    asked = _Asked(
        ports=ports,
        context=context,
        transactional_id=request.transactional_id,
        acks=request.acks,
        allowance=Allowance(ports.live_config.settings.ottla_request_inflated_max_bytes),
    )
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1 and request.acks in ACKS:
        answered = _one(asked, request)
        if isinstance(answered, Pause):
            return run_first_step(_one_after(answered, asked, request))
        if answered is not None:
            return _answer(asked, request, answered)
    return run_first_step(_in_steps(asked, request))


def _answer(asked: _Asked, request: ProduceRequest, response: ProduceResponse, leaderships_lost: int | None = None) -> Answer:
    """The response according to ``acks``: none, at once, or after all in-sync replicas have the batches.

    ``leaderships_lost`` is the barrier's counter before the first step; None if no other work has run since the append.
    """
    if not request.acks:
        return None
    if asked.ports.cluster.is_alone:
        return response
    return when_replicated(asked.ports, asked.context, request, response, leaderships_lost)


def _one(asked: _Asked, request: ProduceRequest) -> ProduceResponse | Pause | None:
    """Handle a request with one batch without a generator, which is faster.

    None if the batch must be checked in steps, or the `Pause` of `join_transaction`.
    """
    topic = request.topic_data[0]
    data = topic.partition_data[0]
    if request.transactional_id is None and transactional_producer_of(asked.ports, asked.context, topic, data) is not None:
        answer: PartitionProduceResponse | Pause | None = PartitionProduceResponse(
            index=data.index, error_code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, base_offset=-1
        )
    else:
        answer = _append_at_once(asked, topic, data)
    return _response_of_one(asked, topic, answer) if isinstance(answer, PartitionProduceResponse) else answer


def _response_of_one(asked: _Asked, topic: TopicProduceData, answer: PartitionProduceResponse) -> ProduceResponse:
    return ProduceResponse([TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])])


def _one_after(pause: Pause, asked: _Asked, request: ProduceRequest) -> Steps[Answer]:
    topic = request.topic_data[0]
    data = topic.partition_data[0]
    answer = yield from _append_after(pause, asked, topic, data)
    return _answer(asked, request, _response_of_one(asked, topic, answer))


def _in_steps(asked: _Asked, request: ProduceRequest) -> Steps[Answer]:
    """Handle one partition after the other. A small request ends within the first step."""
    ports, context, allowance = asked.ports, asked.context, asked.allowance
    lost, pace = ports.barrier.leaderships_lost, Pace()
    refused = yield from whole_refusal(ports, context, request, pace)
    has_waited = False
    if asked.transactional_id is not None and refused is Code.NONE:
        has_waited = yield from join_partitions(ports, context, request, pace)
    responses = []
    waiting: list[_Waiting] = []
    work = 0
    for topic in request.topic_data:
        # The last entry of a repeated partition wins.
        last: dict[int, PartitionProduceData] = {}
        for data in topic.partition_data:
            last[data.index] = data
            if pace.spend(1):
                yield None
        answers: list[PartitionProduceResponse] = []
        for index, data in last.items():
            # Pause only before the second and later partitions, so that a request with one small batch has no pause.
            if pace.spend(work):
                yield None
            left_bytes = allowance.left_bytes
            if refused is not Code.NONE:
                answers.append(PartitionProduceResponse(index=index, error_code=refused, base_offset=-1))
            else:
                answer = _append_at_once(asked, topic, data, has_waited=has_waited)
                if answer is None:
                    answer = yield from _append_in_steps(asked, topic, data, has_waited=has_waited)
                if isinstance(answer, Pause):
                    waiting.append(_Waiting(topic=topic, data=data, answers=answers, position=len(answers), pause=answer))
                    answer = PartitionProduceResponse(index=index, error_code=Code.UNKNOWN_SERVER_ERROR, base_offset=-1)
                answers.append(answer)
            work = PARTITION_WORK + (len(data.records or b"") + left_bytes - allowance.left_bytes >> WORK_BYTES_SHIFT)
        if answers:
            responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    for batch in waiting:
        batch.answers[batch.position] = yield from _append_after(batch.pause, asked, batch.topic, batch.data)
    return _answer(asked, request, ProduceResponse(responses), lost)


class _Waiting(msgspec.Struct, kw_only=True):
    """A batch whose partition is being added to its transaction, and the position of its result among those of its topic.

    All batches of a request wait together, so that the coordinator's records of one request share a round of syncs.
    """

    topic: TopicProduceData
    data: PartitionProduceData
    answers: list[PartitionProduceResponse]
    position: int
    pause: Pause


def _append_after(
    pause: Pause, asked: _Asked, topic: TopicProduceData, data: PartitionProduceData
) -> Steps[PartitionProduceResponse]:
    """Append a batch after the coordinator of its transaction has responded. The batch is checked again."""
    answer: PartitionProduceResponse | Pause = pause
    while isinstance(answer, Pause):
        yield answer
        answer = yield from _append_in_steps(asked, topic, data, has_waited=True)
    return answer


def _append_at_once(
    asked: _Asked, topic: TopicProduceData, data: PartitionProduceData, *, has_waited: bool = False
) -> PartitionProduceResponse | Pause | None:
    """Check, verify and append a batch in one synchronous call.

    None for a batch that takes long to check or is recompressed, or the `Pause` of `join_transaction`.
    """
    partition: Partition | None = None
    ports, context, allowance = asked.ports, asked.context, asked.allowance
    left_bytes, is_checked = allowance.left_bytes, False
    try:
        partition = partition_of(ports, context, topic, data.index)
        if len(data.records or b"") > CRC_AT_ONCE_BYTES:
            return None
        batch, header = _batch(context, data)
        if partition.log.config.compression_type != AS_PRODUCED and target_of(partition.log.config, header) is not None:
            return None
        rules = _rules(ports, partition)
        # Do not check or inflate the records of a batch that the log will refuse for its size.
        is_acceptable = partition.log.accepts_size(len(batch))
        max_timestamp_ms = check_records(batch, header, rules, allowance) if is_acceptable else header.max_timestamp_ms
        if max_timestamp_ms is None:
            return None
        is_checked = True
        appended = _append(asked, partition, batch, header, rules, max_timestamp_ms, has_waited=has_waited)
        if isinstance(appended, Pause):
            allowance.left_bytes = left_bytes
        return appended
    except KafkaError as error:
        refused = error if is_checked else _verdict(asked, data, partition, error, has_waited=has_waited)
    return _refusal(asked, data, partition, refused, left_bytes)


def _verdict(
    asked: _Asked, data: PartitionProduceData, partition: Partition | None, error: KafkaError, *, has_waited: bool
) -> KafkaError | Pause:
    context, transactional_id = asked.context, asked.transactional_id
    return verdict_on_refused(asked.ports, context, transactional_id, partition, data.records, error, has_waited=has_waited)


def _refusal(
    asked: _Asked, data: PartitionProduceData, partition: Partition | None, refused: KafkaError | Pause, left_bytes: int
) -> PartitionProduceResponse | Pause:
    """The result of a refused batch. A batch that must wait for verification is handled again, so its allowance is restored."""
    if isinstance(refused, Pause):
        asked.allowance.left_bytes = left_bytes
        return refused
    _report(asked, data, partition, refused)
    return refused_partition(data.index, refused, partition)


def _append_in_steps(
    asked: _Asked, topic: TopicProduceData, data: PartitionProduceData, *, has_waited: bool
) -> Steps[PartitionProduceResponse | Pause]:
    """Check the records of a batch in steps, then verify and append the batch in one synchronous call.

    If the result is the `Pause` of `join_transaction`, nothing was appended, and the batch must be handled again.
    """
    partition: Partition | None = None
    ports, context, allowance = asked.ports, asked.context, asked.allowance
    left_bytes, is_checked = allowance.left_bytes, False
    try:
        while True:
            partition = partition_of(ports, context, topic, data.index)
            config, left_bytes = partition.log.config, allowance.left_bytes
            batch, header = _batch(context, data, (yield from _crc_aside(data)))
            max_timestamp_ms = header.max_timestamp_ms
            target = target_of(config, header)
            # Do not check or inflate the records of a batch that the log will refuse for its size. As in Kafka, max.message.bytes
            # limits the batch before and after recompression, segment.bytes only the stored batch.
            if partition.log.accepts_size(len(batch)) or (target is not None and len(batch) <= config.max_message_bytes):
                max_timestamp_ms = yield from _check_aside(ports, batch, header, _rules(ports, partition), allowance)
                if target is not None:
                    inflated_bytes = left_bytes - allowance.left_bytes if header.compression else len(batch) - HEADER_BYTES
                    batch, header = yield from recompressed(ports, batch, header, target, inflated_bytes, config.max_message_bytes)
            partition = partition_of(ports, context, topic, data.index)
            if partition.log.config == config:
                rules, is_checked = _rules(ports, partition), True
                appended = _append(asked, partition, batch, header, rules, max_timestamp_ms, has_waited=has_waited)
                if isinstance(appended, Pause):
                    allowance.left_bytes = left_bytes
                return appended
            # The topic's configs have changed during the check, so check the batch again. The client's allowance is charged once.
            allowance.left_bytes = left_bytes
    except KafkaError as error:
        refused = error if is_checked else _verdict(asked, data, partition, error, has_waited=has_waited)
    return _refusal(asked, data, partition, refused, left_bytes)


def _report(asked: _Asked, data: PartitionProduceData, partition: Partition | None, error: KafkaError) -> None:
    """Report a refused batch to the listener of transaction histories."""
    listener = asked.ports.transaction_listener
    if asked.transactional_id and listener is not None:
        report_refused(listener, asked.ports.clock, asked.context, asked.transactional_id, data, partition, error.code)


def _crc_aside(data: PartitionProduceData) -> Steps[int | None]:
    """The CRC of a large batch, computed in a worker thread; None for a small batch."""
    records, crcs = data.records or b"", list[int]()
    if len(records) <= CRC_AT_ONCE_BYTES:
        return None
    yield lambda: crcs.append(produced_crc(records))
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


def _append(
    asked: _Asked,
    partition: Partition,
    batch: memoryview,
    header: BatchHeader,
    rules: Rules,
    max_timestamp_ms: int,
    *,
    has_waited: bool,
) -> PartitionProduceResponse | Pause:
    """Verify and append a batch whose records were checked. May return the `Pause` of `verify`. Raises `KafkaError`."""
    if not rules.is_append_time and (max_timestamp_ms != header.max_timestamp_ms or header.attributes & TIMESTAMP_TYPE_BIT):
        header = correct_timestamps(batch, max_timestamp_ms)
    context, transactional_id = asked.context, asked.transactional_id
    implicit_add = context.version >= IMPLICIT_ADD_FROM
    # As in Kafka, a batch without a producer id belongs to no transaction, even if its transactional bit is set.
    if transactional_id is not None and header.attributes & TRANSACTIONAL_BIT and header.producer_id >= 0:
        pause = verify(asked.ports, context, transactional_id, partition, header, has_waited=has_waited)
        if pause is not None:
            return pause
    appended = partition.append(batch, header, implicit_add=implicit_add and transactional_id is not None, acks=asked.acks)
    log = partition.log
    return PartitionProduceResponse(
        index=log.partition,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=log.log_start_offset,
    )


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


def _check_aside(ports: Ports, batch: memoryview, header: BatchHeader, rules: Rules, allowance: Allowance) -> Steps[int]:
    """Check a large batch in steps; returns its largest timestamp. Waits for memory from the shared budget."""
    stream, memory = RecordStream(batch, header, allowance, max_record_bytes=rules.max_record_bytes), ports.inflating
    yield from memory.take(stream.memory_bytes)
    left_bytes = allowance.left_bytes
    try:
        checked_ms = yield from check_in_steps(batch, header, rules, allowance, stream)
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


API = Declaration(
    key=0,
    handle=handle,
    failed=failed,
    authorisation=authorisations("WRITE TRANSACTIONAL_ID, WRITE TOPIC"),
)
