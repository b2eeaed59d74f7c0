"""InitializeShareGroupState, version 0 (KIP-932): initializes the states of share partitions.

If the request has no start offset, the first fetch determines it. Kafka's group coordinator sends this request to the share
coordinator, which FindCoordinator returns for key type 2.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.handlers.support.share_state_requests import for_each_partition
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


class Ports(Protocol):
    share_states: ShareStates


async def handle(
    ports: Ports, request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    return await for_each_partition(request.group_id, request.topics, lambda key, asked: _one(ports, key, asked), _answer)


def _one(ports: Ports, key: ShareKey, asked: PartitionData) -> PartitionResult:
    try:
        ports.share_states.initialize(key, asked.state_epoch, asked.start_offset)
        return PartitionResult(partition=asked.partition, error_code=0)
    except KafkaError as error:
        return _refused(asked, error.code, error.message)


def _refused(asked: PartitionData, code: Code, message: str | None) -> PartitionResult:
    return PartitionResult(partition=asked.partition, error_code=code, error_message=message)


def _answer(topics: list[tuple[bytes, list[PartitionResult]]]) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=[InitializeStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    )


def failed(request: InitializeShareGroupStateRequest, version: int, code: Code) -> InitializeShareGroupStateResponse:
    return _answer([(topic.topic_id, [_refused(p, code, None) for p in topic.partitions]) for topic in request.topics])


API = Declaration(
    key=83,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CLUSTER_ACTION CLUSTER"),
)
