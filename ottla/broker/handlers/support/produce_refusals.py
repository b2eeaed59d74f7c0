"""Errors of Produce: for a whole request, and for a partition whose batch was refused.

See ProduceRequest.validateRecords and KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.handlers.support.current_leaders import leader_for_produce
from ottla.broker.handlers.support.produce_partition import IDS_FROM, BeforeTheLog
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records import transactional_header
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.validation import RecordsRefused

ACKS = (-1, 0, 1)
_UNCOUNTED = (-1, -1)
"""Producer id and epoch for a transactional batch to an unknown partition. As in Kafka, the check for several producers in one
request ignores such batches."""
_WITHOUT_START = {
    Code.MESSAGE_TOO_LARGE,
    Code.RECORD_LIST_TOO_LARGE,
    Code.CORRUPT_MESSAGE,
    Code.KAFKA_STORAGE_ERROR,
}
"""Errors of an append for which the response has no log start offset (ReplicaManager.appendRecordsToLeader)."""


class Ports(Protocol):
    partitions: Partitions


async def whole_refusal(ports: Ports, context: RequestContext, request: ProduceRequest, pace: Pace) -> Code:
    """The error for all partitions of the request; NONE if the request may be handled. Checks in Kafka's order."""
    producers = set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            producer = _transactional_producer_of(ports, context, topic, data)
            if producer is not None:
                if request.transactional_id is None:
                    return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                if producer[0] >= 0:
                    producers.add(producer)
            if pace.spend(1):
                await next_turn()
    if len(producers) > 1:
        return Code.INVALID_PRODUCER_ID_MAPPING
    return Code.NONE if request.acks in ACKS else Code.INVALID_REQUIRED_ACKS


def has_transactional_records(request: ProduceRequest) -> bool:
    """Whether any batch is transactional. A transactional id in the request does not show this (CVE-2018-17196)."""
    return any(transactional_header(data.records) is not None for topic in request.topic_data for data in topic.partition_data)


def is_one_acceptable_batch(ports: Ports, context: RequestContext, request: ProduceRequest) -> bool:
    """Whether the request has one batch, and `whole_refusal` would not refuse the request."""
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1 or request.acks not in ACKS:
        return False
    topic = request.topic_data[0]
    return (
        request.transactional_id is not None or _transactional_producer_of(ports, context, topic, topic.partition_data[0]) is None
    )


def _transactional_producer_of(
    ports: Ports, context: RequestContext, topic: TopicProduceData, data: PartitionProduceData
) -> tuple[int, int] | None:
    """Return the producer id and epoch of a transactional batch; None for other batches.

    If the batch's partition does not exist, return `_UNCOUNTED`.
    """
    header = transactional_header(data.records)
    if header is None:
        return None
    if context.version < IDS_FROM and ports.partitions.find(topic.name, data.index) is None:
        return _UNCOUNTED
    return header.producer_id, header.producer_epoch


def refused_partition(index: int, error: KafkaError, partition: Partition | None) -> PartitionProduceResponse:
    """The response for a partition with a refused batch. As in Kafka, only some errors have a log start offset."""
    errors = error.errors if isinstance(error, RecordsRefused) else []
    log_start_offset = -1
    if partition is not None and error.code not in _WITHOUT_START and not isinstance(error, BeforeTheLog):
        log_start_offset = partition.log.log_start_offset
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        record_errors=[BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message) for at, message in errors],
        error_message=error.message,
        current_leader=leader_for_produce(error),
    )
