"""The errors that refuse a Produce request as a whole (ProduceRequest.validateRecords, KafkaApis.handleProduceRequest)."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.api import RequestContext
from ottla.broker.partitions import Partitions
from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import HEADER_BYTES, TRANSACTIONAL_BIT, read_header
from ottla.storage.steps import Pace, Steps

IDS_FROM = 13
"""The first version that names topics by their ids."""
ACKS = (-1, 0, 1)
_UNCOUNTED = -2
"""Stands for the producer id of a transactional batch to an unknown partition, which `whole_refusal` does not count."""


class Ports(Protocol):
    partitions: Partitions


def whole_refusal(ports: Ports, context: RequestContext, request: ProduceRequest, pace: Pace) -> Steps[Code]:
    """The error for the whole request, NONE where it may be handled."""
    if request.acks not in ACKS:
        return Code.INVALID_REQUIRED_ACKS
    producers = set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            producer_id = transactional_producer_of(ports, context, topic, data)
            if producer_id is not None:
                if request.transactional_id is None:
                    return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                producers.add(producer_id)
            if pace.spend(1):
                yield None
    producers.discard(_UNCOUNTED)
    return Code.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else Code.NONE


def transactional_producer_of(
    ports: Ports, context: RequestContext, topic: TopicProduceData, data: PartitionProduceData
) -> int | None:
    """The producer id of a transactional batch, `_UNCOUNTED` where its partition does not exist; None for other batches."""
    records = data.records
    if records is None or len(records) < HEADER_BYTES or records[16] != 2 or not records[22] & TRANSACTIONAL_BIT:
        return None
    if context.version < IDS_FROM and ports.partitions.find(topic.name, data.index) is None:
        return _UNCOUNTED
    return read_header(records).producer_id
