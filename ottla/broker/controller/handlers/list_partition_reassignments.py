"""ListPartitionReassignments, version 0 (KIP-455): lists the partitions that are being moved to other brokers.

As in Apache Kafka, topics that do not exist get no error.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.list_partition_reassignments import failed
from ottla.coordinator.controller.reassignment import reassigning
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.steps import Pace, next_turn


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(
    ports: Ports, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    state, pace = ports.controller.state, Pace(double_first=True)
    if request.topics is None:
        asked = [(topic.name, range(topic.partition_count)) for topic in state.topics.values()]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in request.topics]  # type: ignore[misc]
    topics = []
    for name, indexes in asked:
        if pace.spend(1 + len(indexes)):
            await next_turn()
        moving = reassigning(state, [(name, index) for index in indexes])
        if moving:
            partitions = [
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
                for (_, index), partition in moving.items()
            ]
            topics.append(OngoingTopicReassignment(name=name, partitions=partitions))
    return ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=0, error_message=None, topics=topics)


API = ControllerDeclaration(key=46, handle=handle, failed=failed, authorisation=authorisations("DESCRIBE CLUSTER"))
