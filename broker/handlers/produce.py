"""Produce, versions 3 to 13 (KIP-98, KIP-360, KIP-516, KIP-890).

Version 7 lets zstd in, 8 has messages in errors, 11 knows TRANSACTION_ABORTABLE, 12 adds the partition to the
transaction by itself, 13 names topics by id. Versions 0 to 2 are offered and refused, as Kafka does for librdkafka.
"""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import topic_name
from broker.partitions import Partition
from broker.verification import PRODUCE_CODES, join_transaction
from coordinator.cluster import INTERNAL_TOPICS
from coordinator.transaction.shard import ProducerIdAndEpoch
from protocol.errors import Code, KafkaError
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records import TRANSACTIONAL_BIT, BatchHeader, check_produced, read_header
from protocol.validation import check_records

IMPLICIT_ADD_FROM = 12
ABORTABLE_FROM = 11
ZSTD_FROM = 7
IDS_FROM = 13
ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to internal topics, as in Kafka."""


def handle(context: Context, request: ProduceRequest) -> ProduceResponse | None:
    refused = _refusal(context, request)
    responses = []
    for topic in request.topic_data:
        try:
            name = topic.name if context.version < IDS_FROM else topic_name(context.broker, topic.topic_id)
            missing = Code.NONE
        except KafkaError as error:
            name, missing = "", error.code
        answers: dict[int, PartitionProduceResponse] = {}
        # The last entry wins where a partition is named twice.
        for index, data in {p.index: p for p in topic.partition_data}.items():
            if refused is not Code.NONE or missing is not Code.NONE:
                answers[index] = PartitionProduceResponse(index, refused or missing, -1)
            else:
                answers[index] = _append(context, request.transactional_id, name, data)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, list(answers.values())))
    return ProduceResponse(responses) if request.acks else None


def _append(context: Context, transactional_id: str | None, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
    """Checks, verification and append are one synchronous stretch: nothing can come between them."""
    index = data.index
    try:
        partition = context.broker.partitions.get(topic, index)
        if topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        records = data.records
        if records is None:
            raise KafkaError(Code.INVALID_RECORD, "no records")
        batch = records if type(records) is memoryview else memoryview(bytearray(records))
        header = check_produced(batch, zstd_allowed=context.version >= ZSTD_FROM)
        check_records(batch, header, keys_wanted=partition.log.config.is_compacted)
        implicit_add = context.version >= IMPLICIT_ADD_FROM
        if transactional_id is not None and header.attributes & TRANSACTIONAL_BIT:
            verify(context, transactional_id, partition, header)
        appended = partition.append(batch, header, implicit_add=implicit_add and transactional_id is not None)
    except KafkaError as error:
        return PartitionProduceResponse(index, error.code, -1, error_message=error.message)
    return PartitionProduceResponse(index, 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset)


def verify(context: Context, transactional_id: str, partition: Partition, header: BatchHeader) -> None:
    """The partition must belong to the producer's transaction: added here (TV2) or by the client before (KIP-890)."""
    # First of all: an id that has expired meanwhile must not turn a fenced producer into an unknown one (CRD-12).
    partition.log.producers.check_epoch(header)
    state = partition.log.producers.entries.get(header.producer_id)
    if state is not None and state.txn_first_offset >= 0 and state.epoch == header.producer_epoch:
        return
    key = (partition.log.topic, partition.log.partition)
    identity = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    implicit_add = context.version >= IMPLICIT_ADD_FROM
    try:
        join_transaction(context.broker, transactional_id, identity, key, implicit_add=implicit_add)
    except KafkaError as error:
        if not implicit_add:
            partition.log.producers.note_unverified(header, context.broker.env.now_ms())
        raise KafkaError(verification_code(error.code, context.version), error.message) from None


def verification_code(code: Code, version: int) -> Code:
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Code.INVALID_TXN_STATE
    if code is Code.CONCURRENT_TRANSACTIONS and version < IMPLICIT_ADD_FROM:
        return Code.NOT_ENOUGH_REPLICAS
    return PRODUCE_CODES.get(code, code)


def _refusal(context: Context, request: ProduceRequest) -> Code:
    """What refuses the request as a whole. Partitions that do not exist do not count among its producers."""
    if request.acks not in (-1, 0, 1):
        return Code.INVALID_REQUIRED_ACKS
    producers = set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < 61 or records[16] != 2 or not records[22] & TRANSACTIONAL_BIT:
                continue
            if request.transactional_id is None:
                return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if context.version >= IDS_FROM or context.broker.partitions.find(topic.name, data.index) is not None:
                producers.add(read_header(records).producer_id)
    return Code.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else Code.NONE


def failed(request: ProduceRequest, version: int, code: Code) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        [
            TopicProduceResponse(t.name, t.topic_id, [PartitionProduceResponse(p.index, code, -1) for p in t.partition_data])
            for t in request.topic_data
        ]
    )


API = Declaration(0, handle, failed)
