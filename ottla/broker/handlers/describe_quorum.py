"""DescribeQuorum, versions 0 to 2 (KIP-595): shows the voter of the metadata log, and the brokers that read it.

- 1 (KIP-836): the time of each replica's last fetch, and the time when the replica was last caught up.
- 2 (KIP-853): directory ids, endpoints of the voters, error messages.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.steps import Pace, next_turn


class Ports(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig
    clock: Clock
    directory_id: bytes

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    # As in Kafka, a request for anything but the metadata partition gets an error for all its partitions
    # (RaftUtil.hasValidTopicPartition).
    if not _asks_for_metadata(request):
        return await _refused(request)
    node_id, log, now_ms = ports.live_config.settings.node_id, ports.cluster.metadata_log, ports.clock.now_ms()
    voter = ReplicaState(
        replica_id=node_id,
        replica_directory_id=ports.directory_id,
        log_end_offset=log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = ResponsePartitionData(
        partition_index=0,
        error_code=0,
        error_message="",
        leader_id=node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.high_watermark,
        current_voters=[voter],
        observers=[
            ReplicaState(
                replica_id=observer.replica_id,
                replica_directory_id=observer.directory_id,
                log_end_offset=observer.end_offset,
                last_fetch_timestamp=observer.fetched_ms,
                last_caught_up_timestamp=observer.caught_up_ms,
            )
            for observer in log.observers()
        ],
    )
    # This broker has no controller listener, so the voter's endpoint is that of the client's listener.
    host, port = ports.advertised(context.listener)
    return DescribeQuorumResponse(
        error_code=0,
        error_message="",
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[Node(node_id=node_id, listeners=[Listener(name=context.listener, host=host, port=port)])],
    )


def _asks_for_metadata(request: DescribeQuorumRequest) -> bool:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    return request.topics[0].topic_name == METADATA_TOPIC and request.topics[0].partitions[0].partition_index == 0


async def _refused(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    topics, pace = [], Pace(double_first=True)
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(
                ResponsePartitionData(
                    partition_index=partition.partition_index,
                    error_code=Code.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message="This server does not host this topic-partition.",
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=[],
                    observers=[],
                )
            )
            if pace.spend(1):
                await next_turn()
        topics.append(ResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
        if pace.spend(1):
            await next_turn()
    return DescribeQuorumResponse(error_code=0, error_message="", topics=topics, nodes=[])


def failed(request: DescribeQuorumRequest, version: int, code: Code) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=None, topics=[], nodes=[])


API = Declaration(key=55, handle=handle, failed=failed, authorisation=authorisations("DESCRIBE CLUSTER"))
