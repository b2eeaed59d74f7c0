"""AlterReplicaLogDirs, versions 1 and 2 (KIP-113): accepts only the one log directory that the broker has."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import NotLeader, Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.storage.log_dir import LogDirectory

PARTITION_WORK = 3
"""Estimated time to check a partition, in units of 2 us."""


class Ports(Protocol):
    cluster: ClusterCommands
    partitions: Partitions
    directory: LogDirectory


async def handle(ports: Ports, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    codes: dict[str, dict[int, Code]] = {}
    pace = Pace(double_first=True)
    for asked in request.dirs:
        is_own = asked.path == ports.directory.absolute_path
        for topic in asked.topics:
            for index in topic.partitions:
                codes.setdefault(topic.name, {})[index] = _moved(ports, topic.name, index) if is_own else Code.LOG_DIR_NOT_FOUND
                if pace.spend(PARTITION_WORK):
                    await next_turn()
            if pace.spend(1):
                await next_turn()
        if pace.spend(1):
            await next_turn()
    results = []
    for name, of_topic in codes.items():
        results.append(
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[AlterReplicaLogDirPartitionResult(partition_index=i, error_code=code) for i, code in of_topic.items()],
            )
        )
        if pace.spend(len(of_topic)):
            await next_turn()
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=results)


def _moved(ports: Ports, topic: str, index: int) -> Code:
    """The partition's error code; NONE if this broker has a replica of the partition and the log is online."""
    try:
        ports.cluster.state.topic(topic)
        ports.partitions.replica(topic, index).log.check_online()
    except NotLeader:
        # Apache Kafka returns REPLICA_NOT_AVAILABLE for compatibility with older clients (ReplicaManager.alterReplicaLogDirs).
        return Code.REPLICA_NOT_AVAILABLE
    except KafkaError as error:
        return error.code
    return Code.NONE


def failed(request: AlterReplicaLogDirsRequest, version: int, code: Code) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[AlterReplicaLogDirPartitionResult(partition_index=i, error_code=code) for i in topic.partitions],
            )
            for asked in request.dirs
            for topic in asked.topics
        ],
    )


API = Declaration(key=34, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
