"""DeleteShareGroupOffsets, version 0 (KIP-932): deletes the states of topics of a share group that has no members."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, denied
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.broker.handlers.support.common import denied_topics, share_error_message
from ottla.broker.handlers.support.each import made
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.protocol.primitives import NO_UUID
from ottla.security.acl.codes import AclOperation, ResourceType


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    share_groups: ShareGroupStates


async def handle(ports: Ports, request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> DeleteShareGroupOffsetsResponse:
    group_id, groups = request.group_id, ports.groups
    try:
        if not groups.offers_share_protocol:
            raise KafkaError(Code.UNSUPPORTED_VERSION, "The version of API is not supported.")
        if not group_id:
            raise KafkaError(Code.INVALID_GROUP_ID, "The group id is invalid.")
        names = [topic.topic_name for topic in request.topics]
        unreadable = await denied_topics(ports.authorizer, context, AclOperation.READ, names)
        shard, runtime = groups.shard(group_id)
        shard.check_share_group(group_id)
        readable = [name for name in names if name not in unreadable]
        deletion = runtime.execute(shard.shares.delete_offsets(group_id, readable))
        refusals = await ports.share_groups.delete(group_id, deletion.partitions)
        deleted = [topic_id for topic_id in deletion.partitions if topic_id not in refusals]
        if deleted:
            shard, runtime = groups.shard(group_id)
            runtime.execute(shard.shares.offsets_deleted(group_id, deleted))
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=share_error_message(error))
    names_by_id = {topic_id: groups.topics.topic_name(topic_id) or "" for topic_id in deletion.partitions}

    def answer() -> DeleteShareGroupOffsetsResponse:
        done = [_topic(names_by_id[topic_id], topic_id) for topic_id in deleted]
        refused = [_topic(name, NO_UUID, error) for name, error in deletion.refusals.items()]
        refused += [_topic(names_by_id[topic_id], topic_id, error) for topic_id, error in refusals.items()]
        refused += [_topic(name, NO_UUID, denied(ResourceType.TOPIC)) for name in names if name in unreadable]
        return DeleteShareGroupOffsetsResponse(responses=done + refused)

    return await made(answer, len(request.topics))


def _topic(name: str, topic_id: bytes, error: KafkaError | None = None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=Code.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def failed(request: DeleteShareGroupOffsetsRequest, version: int, code: Code) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code)


API = Declaration(
    key=92,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DELETE GROUP group_id, READ TOPIC"),
)
