"""ListGroups, versions 0 to 5: lists all groups, or only groups of the requested states and types.

- 4 (KIP-518): the request may filter by state; the response has the state.
- 5 (KIP-848): the request may filter by type; the response has the type.

Without DESCRIBE on the cluster, a client sees only groups that it may DESCRIBE.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.each import made
from ottla.coordinator.group.shard import GroupShard
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType

GROUP_WORK = 5
"""Estimated time to list a group, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups


async def handle(ports: Ports, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    if ports.groups.is_loading:
        return failed(request, context.version, Code.COORDINATOR_LOAD_IN_PROGRESS)
    response = await _list(request, ports.groups.shards())
    authorizer = ports.authorizer
    if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        response.groups = [
            group
            for group in response.groups
            if authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, logs_denied=False)
        ]
    return response


async def _list(request: ListGroupsRequest, shards: list[GroupShard]) -> ListGroupsResponse:
    states = await made(lambda: {s.lower() for s in request.states_filter}, len(request.states_filter))
    types = await made(lambda: {t.lower() for t in request.types_filter}, len(request.types_filter))
    listed, pace = [], Pace(double_first=True)
    groups = ((shard, group_id) for shard in shards for group_id in shard.group_ids())
    for shard, group_id in groups:
        if pace.spend(GROUP_WORK):
            await next_turn()
        group = shard.view(group_id)
        if group is None:
            continue
        state, kind = group.state_name, group.type_name
        if (states and state.lower() not in states) or (types and kind not in types):
            continue
        listed.append(ListedGroup(group_id=group_id, protocol_type=group.protocol_type_name, group_state=state, group_type=kind))
    return ListGroupsResponse(groups=listed)


def failed(request: ListGroupsRequest, version: int, code: Code) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time_ms=0, error_code=code)


API = Declaration(
    key=16,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE CLUSTER, DESCRIBE GROUP", by_handler=True),
    is_bulky=True,
)
