"""AlterPartitionReassignments, versions 0 and 1 (KIP-455): moves partitions to other brokers, or cancels a move.

- 1 (KIP-860): the client specifies whether the replication factor may change.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.alter_partition_reassignments import failed
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.steps import Pace, next_turn

PARTITION_WORK = 20
"""Estimated time to decide on one partition, in units of 2 us."""


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(
    ports: Ports, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    responses, pace = [], Pace(double_first=True)
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            if pace.spend(PARTITION_WORK + len(partition.replicas or ())):
                await next_turn()
            answers.append(_reassigned(ports, topic.name, partition, request.allow_replication_factor_change))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        error_code=0,
        error_message=None,
        responses=responses,
    )


def _reassigned(
    ports: Ports, name: str, partition: ReassignablePartition, may_change_factor: bool
) -> ReassignablePartitionResponse:
    index = partition.partition_index
    replicas = None if partition.replicas is None else tuple(partition.replicas)
    try:
        if replicas is not None and not may_change_factor:
            _check_factor(ports, name, index, len(replicas))
        error = ports.controller.reassign({(name, index): replicas})[name, index]
    except KafkaError as refused:
        error = refused
    if error is None:
        return ReassignablePartitionResponse(partition_index=index, error_code=0, error_message=None)
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def _check_factor(ports: Ports, name: str, index: int, factor: int) -> None:
    topic = ports.controller.state.topics.get(name)
    if topic is None or not 0 <= index < topic.partition_count:
        return
    partition = topic.partitions[index]
    current = len(partition.replicas) - len(partition.adding_replicas)
    if current != factor:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {current} to {factor}",
        )


API = ControllerDeclaration(key=45, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
