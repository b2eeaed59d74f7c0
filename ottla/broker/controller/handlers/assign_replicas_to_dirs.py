"""AssignReplicasToDirs, version 0 (KIP-858): a broker reports in which of its log directories it keeps its replicas."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.steps import next_turn

REPLICAS_PER_STEP = 100
"""Maximum number of replicas that one step assigns. A step takes a few milliseconds and appends one batch."""


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: AssignReplicasToDirsRequest, context: RequestContext) -> AssignReplicasToDirsResponse:
    asked = [
        (directory.id, topic.topic_id, partition.partition_index)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    decided = ports.controller.assign_directories(request.broker_id, request.broker_epoch, asked[:REPLICAS_PER_STEP])
    for at in range(REPLICAS_PER_STEP, len(asked), REPLICAS_PER_STEP):
        await next_turn()
        some = asked[at : at + REPLICAS_PER_STEP]
        decided += ports.controller.assign_directories(request.broker_id, request.broker_epoch, some)
    answers = iter(decided)
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = [_answer(partition.partition_index, next(answers)) for partition in topic.partitions]
            topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        directories.append(ResponseDirectoryData(id=directory.id, topics=topics))
    return AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=0, directories=directories)


def _answer(index: int, error: KafkaError | None) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=Code.NONE if error is None else error.code)


def failed(request: AssignReplicasToDirsRequest, version: int, code: Code) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=code)


API = ControllerDeclaration(key=73, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"))
