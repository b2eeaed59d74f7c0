"""ListPartitionReassignments, version 0 (KIP-455): lists none, because partitions cannot move with one broker.

As in Apache Kafka, topics that do not exist get no error.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def handle(
    ports: object, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=0, error_message=None)


def failed(request: ListPartitionReassignmentsRequest, version: int, code: Code) -> ListPartitionReassignmentsResponse:
    topics = [
        OngoingTopicReassignment(
            name=topic.name, partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes]
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=code, error_message=None, topics=topics)


API = Declaration(key=46, handle=handle, failed=failed, authorisation=authorisations("DESCRIBE CLUSTER"))
