"""AlterPartitionReassignments, versions 0 and 1 (KIP-455): accepts only the current placement, because there is one broker.

- 1 (KIP-860): the client may allow a change of the replication factor, which has no effect with one broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.steps import Pace, next_turn

PARTITION_WORK = 2
"""Estimated time to check a partition, and a requested replica, in units of 2 us."""


class Ports(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig


async def handle(
    ports: Ports, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    responses, pace = [], Pace(double_first=True)
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            if pace.spend(PARTITION_WORK * (1 + len(partition.replicas or ()))):
                await next_turn()
            answers.append(_answer(ports, topic.name, partition))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
        if pace.spend(1):
            await next_turn()
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        # As in Kafka, ``allow_replication_factor_change`` is always true in the response to a request without topics.
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        error_code=0,
        error_message=None,
        responses=responses,
    )


def _answer(ports: Ports, topic: str, partition: ReassignablePartition) -> ReassignablePartitionResponse:
    index = partition.partition_index
    try:
        _check(ports, topic, index, partition.replicas)
    except KafkaError as error:
        return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return ReassignablePartitionResponse(partition_index=index, error_code=0, error_message=None)


def _check(ports: Ports, topic: str, index: int, replicas: Sequence[int] | None) -> None:
    """Raise `KafkaError` unless the requested replicas are the current ones
    (ReplicationControlManager.alterPartitionReassignment)."""
    known = ports.cluster.state.topics.get(topic)
    if known is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if not 0 <= index < known.partition_count:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if replicas is None:
        raise KafkaError(Code.NO_REASSIGNMENT_IN_PROGRESS)
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"{prefix} an empty replica list.")
    node_id = ports.live_config.settings.node_id
    # Kafka checks the replicas in ascending order, so its error names the smallest invalid broker id.
    smallest, times = min(replicas), replicas.count(node_id)
    if smallest == node_id and times > 1:
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"{prefix} the broker {node_id} more than once.")
    if smallest == node_id and times < len(replicas):
        smallest = min(replica for replica in replicas if replica != node_id)
    if smallest != node_id:
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, f"{prefix} broker {smallest}, but no such broker is registered.")


def failed(request: AlterPartitionReassignmentsRequest, version: int, code: Code) -> AlterPartitionReassignmentsResponse:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(partition_index=p.partition_index, error_code=code, error_message=None)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(throttle_time_ms=0, error_code=code, error_message=None, responses=responses)


API = Declaration(key=45, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
