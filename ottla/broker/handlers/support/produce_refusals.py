"""Errors of Produce: for a whole request, and for a partition whose batch was refused.

See ProduceRequest.validateRecords and KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
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
from ottla.security.acl.codes import AclOperation, ResourceType

ACKS = (-1, 0, 1)
_WITHOUT_START = {
    Code.MESSAGE_TOO_LARGE,
    Code.RECORD_LIST_TOO_LARGE,
    Code.CORRUPT_MESSAGE,
    Code.KAFKA_STORAGE_ERROR,
}
"""Errors of an append for which the response has no log start offset (ReplicaManager.appendRecordsToLeader)."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions


async def whole_refusal(ports: Ports, context: RequestContext, request: ProduceRequest, pace: Pace) -> Code:
    """The error for all partitions of the request; NONE if the request may be handled. Checks in Kafka's order."""
    is_permitted, producers = False, set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            header = transactional_header(data.records)
            if header is not None:
                # The transactional id of the request alone needs no permission, because batches need not be transactional
                # (CVE-2018-17196).
                if not is_permitted and not _may_write(ports, context, request.transactional_id):
                    return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                is_permitted = True
                # As in Kafka, batches without a producer id, or for unknown partitions, do not count.
                if header.producer_id >= 0 and _has_partition(ports, context, topic, data):
                    producers.add((header.producer_id, header.producer_epoch))
            if pace.spend(1):
                await next_turn()
    if len(producers) > 1:
        return Code.INVALID_PRODUCER_ID_MAPPING
    return Code.NONE if request.acks in ACKS else Code.INVALID_REQUIRED_ACKS


def _may_write(ports: Ports, context: RequestContext, transactional_id: str | None) -> bool:
    if transactional_id is None:
        return False
    return ports.authorizer.allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def has_one_batch(request: ProduceRequest) -> bool:
    return len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1


def _has_partition(ports: Ports, context: RequestContext, topic: TopicProduceData, data: PartitionProduceData) -> bool:
    """Whether the broker knows the partition of a batch. Not checked in requests with topic ids."""
    return context.version >= IDS_FROM or ports.partitions.find(topic.name, data.index) is not None


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
