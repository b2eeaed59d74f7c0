"""ElectLeaders, versions 0 to 2 (KIP-183): never elects, because the only broker already leads all partitions.

- 1 (KIP-460): the client requests preferred or unclean leaders; the whole response has an error code.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, clipped
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.steps import Pace, next_turn

PREFERRED, UNCLEAN = 0, 1


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(ports: Ports, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    # Kafka does not check the election type of a request whose list of topics is empty.
    if request.election_type not in (PREFERRED, UNCLEAN) and request.topic_partitions != []:
        return _refused(request, Code.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    results, pace = [], Pace(double_first=True)
    if request.topic_partitions is None:
        # If the request is for all partitions, Kafka's response has only partitions that needed an election: with one broker, none.
        for name in list(ports.cluster.state.topics):
            results.append(ReplicaElectionResult(topic=name, partition_result=[]))
            if pace.spend(1):
                await next_turn()
    for asked in request.topic_partitions or ():
        answers = []
        for index in asked.partitions:
            answers.append(_elect(ports, asked.topic, index))
            if pace.spend(1):
                await next_turn()
        results.append(ReplicaElectionResult(topic=asked.topic, partition_result=answers))
        if pace.spend(1):
            await next_turn()
    return ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)


def _elect(ports: Ports, name: str, index: int) -> PartitionResult:
    topic = ports.cluster.state.topics.get(name)
    if topic is None:
        code, reason = Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < topic.partition_count:
        code, reason = Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        code, reason = Code.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return PartitionResult(partition_id=index, error_code=code, error_message=clipped(reason))


def _refused(request: ElectLeadersRequest, code: Code, reason: str | None) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=reason) for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


def failed(request: ElectLeadersRequest, version: int, code: Code) -> ElectLeadersResponse:
    return _refused(request, code, None)


API = Declaration(
    key=43,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER CLUSTER"),
    is_bulky=True,
)
