"""ReadShareGroupStateSummary, versions 0 and 1 (KIP-932): returns the start offsets of share partitions, without their records.

- 1 (KIP-1226): the response has the number of records that need no further delivery; -1 if unknown.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.handlers.support.share_state_requests import for_each_partition
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


class Ports(Protocol):
    share_states: ShareStates


async def handle(
    ports: Ports, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    return await for_each_partition(request.group_id, request.topics, lambda key, asked: _one(ports, key, asked), _answer)


def _one(ports: Ports, key: ShareKey, asked: PartitionData) -> PartitionResult:
    try:
        state = ports.share_states.read_summary(key)
        return PartitionResult(
            partition=asked.partition,
            error_code=0,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
    except KafkaError as error:
        return _refused(asked, error.code, error.message)


def _refused(asked: PartitionData, code: Code, message: str | None) -> PartitionResult:
    return PartitionResult(partition=asked.partition, error_code=code, error_message=message)


def _answer(topics: list[tuple[bytes, list[PartitionResult]]]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[ReadStateSummaryResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    )


def failed(request: ReadShareGroupStateSummaryRequest, version: int, code: Code) -> ReadShareGroupStateSummaryResponse:
    return _answer([(topic.topic_id, [_refused(p, code, None) for p in topic.partitions]) for topic in request.topics])


API = Declaration(
    key=87,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CLUSTER_ACTION CLUSTER"),
)
