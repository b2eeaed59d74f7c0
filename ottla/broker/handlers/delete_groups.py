"""DeleteGroups, versions 0 to 3 (KIP-229): deletes groups without members, with all their offsets.

- 3 (KIP-1331): the response has a message, which Kafka sets only if a plugin fails to delete a streams group's topology.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

OFFSETS_PER_STEP = 200
"""Maximum number of a group's offsets whose tombstones are written in one batch."""
APPEND_WORK, RECORD_WORK = 50, 5
"""Estimated time to append a batch of tombstones, and to write a tombstone, in units of 2 us."""
_RECORD_BYTES = 350
"""Maximum size in bytes of a tombstone without its group id: a topic's name, and the record's overhead."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    share_groups: ShareGroupStates


async def handle(ports: Ports, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    pace, codes = Pace(double_first=True), dict[str, Code]()
    for group_id in request.groups_names:
        is_new = group_id not in codes
        if pace.spend(id_work(group_id) if is_new else 1):
            await next_turn()
        if is_new:
            if ports.authorizer.allows(context, AclOperation.DELETE, ResourceType.GROUP, group_id):
                codes[group_id] = await _delete(ports, group_id, pace)
            else:
                codes[group_id] = Code.GROUP_AUTHORIZATION_FAILED
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=g, error_code=code) for g, code in codes.items()])


async def _delete(ports: Ports, group_id: str, pace: Pace) -> Code:
    """Delete the group's offsets in batches that ``max.message.bytes`` allows. The last batch deletes the group if it still has no
    members.

    For a share group, the share coordinator first deletes the group's states.
    """
    groups = ports.groups
    try:
        if group_id in groups.shard(group_id)[0].shares.groups:
            await ports.share_groups.delete_all(group_id)
        while True:
            shard, runtime = groups.shard(group_id)
            fitting = runtime.partition.log.config.max_message_bytes // (len(group_id.encode()) + _RECORD_BYTES)
            deleted = shard.delete_group(group_id, min(max(fitting, 1), OFFSETS_PER_STEP))
            is_last = runtime.execute(deleted)
            if pace.spend(APPEND_WORK + RECORD_WORK * len(deleted.records)):
                await next_turn()
            if is_last:
                return Code.NONE
    except KafkaError as error:
        return error.code


def failed(request: DeleteGroupsRequest, version: int, code: Code) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time_ms=0, results=[DeletableGroupResult(group_id=g, error_code=code) for g in request.groups_names]
    )


API = Declaration(
    key=42,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DELETE GROUP", by_handler=True),
)
