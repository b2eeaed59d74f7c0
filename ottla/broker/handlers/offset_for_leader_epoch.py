"""OffsetForLeaderEpoch, versions 2 to 4 (KIP-101): finds the end offset of a leader epoch, with which a client detects truncation.

- 2 (KIP-320): the client's leader epoch is compared with the leader's.
- 3: the request has the replica's id, which is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import msgspec

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.common import denied_topics
from ottla.broker.handlers.support.each import each, made
from ottla.broker.partitions.partitions import Partitions, leader_epoch_end
from ottla.coordinator.replication.leader import check_leader_epoch
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions


async def handle(ports: Ports, request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    authorizer = ports.authorizer
    if authorizer.is_enabled and not authorizer.allows(
        context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False
    ):
        denied = await denied_topics(authorizer, context, AclOperation.DESCRIBE, [topic.topic for topic in request.topics])
        if denied:
            # As in Kafka, topics that the client may not describe come last in the response.
            refused = [topic for topic in request.topics if topic.topic in denied]
            allowed = [topic for topic in request.topics if topic.topic not in denied]
            response = await handle(ports, msgspec.structs.replace(request, topics=allowed), context)
            failure = msgspec.structs.replace(request, topics=refused)
            code, count = Code.TOPIC_AUTHORIZATION_FAILED, sum(len(topic.partitions) for topic in refused)
            failures = await made(lambda: failed(failure, context.version, code), len(refused) + count)
            response.topics += failures.topics
            return response

    def answer(results: Iterator[EpochEndOffset]) -> OffsetForLeaderEpochResponse:
        topics = [
            OffsetForLeaderTopicResult(topic=t.topic, partitions=list(islice(results, len(t.partitions)))) for t in request.topics
        ]
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    asked = ((t.topic, p) for t in request.topics for p in t.partitions)
    return await each(asked, lambda a: _look_up(ports, *a), answer, work=2, groups=len(request.topics))


def _look_up(ports: Ports, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = ports.partitions.replica(topic, asked.partition)
        check_leader_epoch(partition.log.leader_epoch, asked.current_leader_epoch)
        partition.check_leads()
        partition.log.check_online()
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    end = leader_epoch_end(partition, asked.leader_epoch)
    return EpochEndOffset(error_code=0, partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)


def failed(request: OffsetForLeaderEpochRequest, version: int, code: Code) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        throttle_time_ms=0,
        topics=[
            OffsetForLeaderTopicResult(
                topic=t.topic, partitions=[EpochEndOffset(error_code=code, partition=p.partition) for p in t.partitions]
            )
            for t in request.topics
        ],
    )


API = Declaration(
    key=23,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE TOPIC, CLUSTER_ACTION CLUSTER", by_handler=True),
)
