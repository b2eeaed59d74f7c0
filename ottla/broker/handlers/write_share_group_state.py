"""WriteShareGroupState, versions 0 and 1 (KIP-932): persists state changes of share partitions for the partition's leader.

- 1 (KIP-1226): the request has the number of records that need no further delivery, for the group's lag.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.handlers.support.share_state_requests import STORED_PER_UNIT, UNITS_PER_BATCH, for_each_partition
from ottla.coordinator.share_state.batches import StateBatch
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import StateWrite
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

MAX_WRITTEN_BATCHES = 1_000
"""Maximum number of state batches for one share partition in a request.

The batches are unordered, and are combined without a pause.
"""


class Ports(Protocol):
    share_states: ShareStates


async def handle(ports: Ports, request: WriteShareGroupStateRequest, context: RequestContext) -> WriteShareGroupStateResponse:
    return await for_each_partition(
        request.group_id,
        request.topics,
        lambda key, asked: _one(ports, key, asked),
        _answer,
        batch_work=lambda key, asked: _work(ports, key, asked),
    )


def _work(ports: Ports, key: ShareKey, asked: PartitionData) -> int:
    return UNITS_PER_BATCH * len(asked.state_batches) + ports.share_states.batch_count(key) // STORED_PER_UNIT


def _one(ports: Ports, key: ShareKey, asked: PartitionData) -> PartitionResult:
    if len(asked.state_batches) > MAX_WRITTEN_BATCHES:
        message = f"{len(asked.state_batches)} state batches; at most {MAX_WRITTEN_BATCHES} are allowed"
        return _refused(asked, Code.INVALID_REQUEST, message)
    try:
        batches = tuple(StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in asked.state_batches)
        write = StateWrite(asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)
        ports.share_states.write(key, write)
        return PartitionResult(partition=asked.partition, error_code=0)
    except KafkaError as error:
        return _refused(asked, error.code, error.message)


def _refused(asked: PartitionData, code: Code, message: str | None) -> PartitionResult:
    return PartitionResult(partition=asked.partition, error_code=code, error_message=message)


def _answer(topics: list[tuple[bytes, list[PartitionResult]]]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[WriteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    )


def failed(request: WriteShareGroupStateRequest, version: int, code: Code) -> WriteShareGroupStateResponse:
    return _answer([(topic.topic_id, [_refused(p, code, None) for p in topic.partitions]) for topic in request.topics])


API = Declaration(
    key=85,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CLUSTER_ACTION CLUSTER"),
)
