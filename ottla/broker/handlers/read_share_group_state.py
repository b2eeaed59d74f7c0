"""ReadShareGroupState, version 0 (KIP-932): returns the whole states of share partitions to the leaders of their partitions.

The request's leader epoch fences earlier leaders.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.handlers.support.share_state_requests import UNITS_PER_BATCH, for_each_partition
from ottla.coordinator.share_state.batches import StateBatch as PersistedBatch
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

MAX_ANSWERED_BATCHES = 250_000
"""Maximum number of state batches in a response. Without this limit, repeated share partitions in a request would make it huge."""


class Ports(Protocol):
    share_states: ShareStates


async def handle(ports: Ports, request: ReadShareGroupStateRequest, context: RequestContext) -> ReadShareGroupStateResponse:
    answered = 0

    def one(key: ShareKey, asked: PartitionData) -> PartitionResult:
        nonlocal answered
        answered += ports.share_states.batch_count(key)
        if answered > MAX_ANSWERED_BATCHES:
            return _refused(asked, Code.INVALID_REQUEST, f"at most {MAX_ANSWERED_BATCHES} state batches are allowed in a response")
        return _one(ports, key, asked)

    return await for_each_partition(
        request.group_id,
        request.topics,
        one,
        _answer,
        batch_work=lambda key, asked: UNITS_PER_BATCH * ports.share_states.batch_count(key),
    )


def _one(ports: Ports, key: ShareKey, asked: PartitionData) -> PartitionResult:
    try:
        state = ports.share_states.read(key, asked.leader_epoch)
        return PartitionResult(
            partition=asked.partition,
            error_code=0,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[_batch(batch) for batch in state.state_batches],
        )
    except KafkaError as error:
        return _refused(asked, error.code, error.message)


def _batch(batch: PersistedBatch) -> StateBatch:
    first_offset, last_offset, state, count = batch
    return StateBatch(first_offset=first_offset, last_offset=last_offset, delivery_state=state, delivery_count=count)


def _refused(asked: PartitionData, code: Code, message: str | None) -> PartitionResult:
    return PartitionResult(partition=asked.partition, error_code=code, error_message=message)


def _answer(topics: list[tuple[bytes, list[PartitionResult]]]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[ReadStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics]
    )


def failed(request: ReadShareGroupStateRequest, version: int, code: Code) -> ReadShareGroupStateResponse:
    return _answer([(topic.topic_id, [_refused(p, code, None) for p in topic.partitions]) for topic in request.topics])


API = Declaration(
    key=84,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CLUSTER_ACTION CLUSTER"),
    is_bulky=True,
)
