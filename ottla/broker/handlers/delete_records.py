"""DeleteRecords, versions 0 to 2 (KIP-107): moves a partition's log start offset; -1 stands for the high watermark.

All versions behave alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.authorisation import authorisations
from ottla.broker.handlers.each import Handled, for_each
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.partitions import Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_THE_END = -1


class Ports(Protocol):
    partitions: Partitions
    housekeeping: Housekeeping


def handle(ports: Ports, request: DeleteRecordsRequest, context: RequestContext) -> Handled[DeleteRecordsResponse]:
    def answer(results: Iterator[DeleteRecordsPartitionResult]) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            throttle_time_ms=0,
            topics=[
                DeleteRecordsTopicResult(name=t.name, partitions=list(islice(results, len(t.partitions)))) for t in request.topics
            ],
        )

    asked = ((t.name, p) for t in request.topics for p in t.partitions)
    return for_each(asked, lambda a: _delete(ports, *a), answer, work=100, groups=len(request.topics))


def _delete(ports: Ports, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)
        log = ports.partitions.get(topic, asked.partition_index).log
        if "delete" not in log.config.cleanup_policy:
            raise KafkaError(Code.POLICY_VIOLATION)
        offset = log.high_watermark if asked.offset == TO_THE_END else asked.offset
        if offset < 0 or offset > log.high_watermark:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        ports.housekeeping.delete_records(log, offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=error.code)
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=log.log_start_offset)


def failed(request: DeleteRecordsRequest, version: int, code: Code) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            DeleteRecordsTopicResult(
                name=t.name,
                partitions=[
                    DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=-1, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ],
    )


API = Declaration(
    key=21,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DELETE TOPIC"),
)
