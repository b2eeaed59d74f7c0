"""AlterPartition, versions 2 and 3 (KIP-497): the leader of partitions requests a change of their in-sync sets.

- 3 (KIP-903): the request has the broker epoch of each replica.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.coordinator.controller.in_sync import UNKNOWN_EPOCH, PartitionAnswer, PartitionAsked
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.steps import next_turn

EPOCHS_FROM = 3
PARTITIONS_PER_STEP = 100
"""Maximum number of partitions that one step changes. A step takes a few milliseconds and appends one batch."""


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    asked = [_asked(topic.topic_id, partition, context.version) for topic in request.topics for partition in topic.partitions]
    decided = ports.controller.alter_partitions(request.broker_id, request.broker_epoch, asked[:PARTITIONS_PER_STEP])
    for at in range(PARTITIONS_PER_STEP, len(asked), PARTITIONS_PER_STEP):
        await next_turn()
        some = asked[at : at + PARTITIONS_PER_STEP]
        decided += ports.controller.alter_partitions(request.broker_id, request.broker_epoch, some)
    answers = iter(decided)
    return AlterPartitionResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[
            ResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[_answer(partition.partition_index, next(answers)) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _asked(topic_id: bytes, partition: PartitionData, version: int) -> PartitionAsked:
    if version >= EPOCHS_FROM:
        isr = tuple((broker.broker_id, broker.broker_epoch) for broker in partition.new_isr_with_epochs)
    else:
        isr = tuple((broker_id, UNKNOWN_EPOCH) for broker_id in partition.new_isr)
    return PartitionAsked(
        topic_id=topic_id,
        index=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=isr,
        leader_recovery_state=partition.leader_recovery_state,
    )


def _answer(index: int, answer: PartitionAnswer) -> ResponsePartitionData:
    if isinstance(answer, KafkaError):
        return ResponsePartitionData(partition_index=index, error_code=answer.code)
    return ResponsePartitionData(
        partition_index=index,
        error_code=0,
        leader_id=answer.leader,
        leader_epoch=answer.leader_epoch,
        isr=list(answer.isr),
        leader_recovery_state=answer.leader_recovery_state,
        partition_epoch=answer.partition_epoch,
    )


def failed(request: AlterPartitionRequest, version: int, code: Code) -> AlterPartitionResponse:
    return AlterPartitionResponse(throttle_time_ms=0, error_code=code)


API = ControllerDeclaration(key=56, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"))
