"""AlterShareGroupOffsets, version 0 (KIP-932): sets the start offsets of a share group that has no members."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, denied
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_groups import Refusals, ShareGroupStates
from ottla.broker.handlers.support.common import denied_topics, share_error_message, topic_id
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.security.acl.codes import AclOperation, ResourceType

_UNKNOWN = KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    share_groups: ShareGroupStates
    cluster: ClusterCommands


async def handle(ports: Ports, request: AlterShareGroupOffsetsRequest, context: RequestContext) -> AlterShareGroupOffsetsResponse:
    count = sum(len(topic.partitions) for topic in request.topics)
    asked = await made(lambda: _asked(request), count)
    try:
        if not ports.groups.offers_share_protocol:
            raise KafkaError(Code.UNSUPPORTED_VERSION, "The version of API is not supported.")
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID, "The group id is invalid.")
        unreadable = await denied_topics(ports.authorizer, context, AclOperation.READ, [name for name, _ in asked])
        shard, runtime = ports.groups.shard(request.group_id)
        shard.check_share_group(request.group_id)
        topics = ports.cluster.state.topics
        known = [(name, offsets) for name, offsets in asked if name in topics and name not in unreadable]
        altered = runtime.execute(shard.shares.alter_offsets(request.group_id, known))
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=share_error_message(error))
    refusals: Refusals = {}
    if altered.initialization is not None:
        refusals = await ports.share_groups.initialize(altered.initialization)

    identities = {name: topic_id(ports.cluster, name) for name, _ in asked}

    def answer() -> AlterShareGroupOffsetsResponse:
        # As in Kafka, topics that do not exist come first in the response.
        ordered = sorted(asked, key=lambda topic: topic[0] in altered.unknown)
        return AlterShareGroupOffsetsResponse(
            responses=[
                _denied_topic(name, identities[name], offsets)
                if name in unreadable
                else _topic(name, identities[name], offsets, altered.unknown.get(name), refusals)
                for name, offsets in ordered
            ]
        )

    return await made(answer, count)


def _asked(request: AlterShareGroupOffsetsRequest) -> list[tuple[str, dict[int, int]]]:
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        asked.setdefault(topic.topic_name, {}).update((p.partition_index, p.start_offset) for p in topic.partitions)
    return list(asked.items())


def _denied_topic(name: str, identity: bytes, offsets: dict[int, int]) -> AlterShareGroupOffsetsResponseTopic:
    error = denied(ResourceType.TOPIC)
    partitions = [
        AlterShareGroupOffsetsResponsePartition(partition_index=index, error_code=error.code, error_message=error.message)
        for index in offsets
    ]
    return AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=identity, partitions=partitions)


def _topic(
    name: str, identity: bytes, offsets: dict[int, int], unknown: Collection[int] | None, refusals: Refusals
) -> AlterShareGroupOffsetsResponseTopic:
    """The result for a topic.

    ``unknown`` has the requested partitions that do not exist; it is None if the topic does not exist.
    """
    partitions = []
    for partition in offsets:
        is_unknown = unknown is None or partition in unknown
        error = _UNKNOWN if is_unknown else refusals.get((identity, partition))
        code, message = (Code.NONE, None) if error is None else (error.code, error.message)
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(partition_index=partition, error_code=code, error_message=message)
        )
    return AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=identity, partitions=partitions)


def failed(request: AlterShareGroupOffsetsRequest, version: int, code: Code) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code)


API = Declaration(
    key=91,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, READ TOPIC"),
)
