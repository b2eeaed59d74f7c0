"""DescribeGroups, versions 0 to 6: describes classic groups with their state, protocol and members.

- 3 (KIP-430): the response has authorised operations on request.
- 4 (KIP-345): members have instance ids.
- 6 (KIP-1043): an unknown group gets GROUP_ID_NOT_FOUND with a message; older versions describe such a group with state Dead.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.protocol.errors import Code, KafkaError, clipped
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

UNKNOWN_IS_AN_ERROR_FROM = 6
CLASSIC = "classic"
MEMBER_WORK = 5
"""Estimated time to describe a member, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups


async def handle(ports: Ports, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    described, pace = [], Pace(double_first=True)
    for group_id in request.groups:
        if pace.spend(id_work(group_id)):
            await next_turn()
        described.append(await _describe(ports, context, request, group_id, pace))
    return DescribeGroupsResponse(groups=described)


async def _describe(
    ports: Ports, context: RequestContext, request: DescribeGroupsRequest, group_id: str, pace: Pace
) -> DescribedGroup:
    """Describe the group as it is at the first step, even if it changes between steps."""
    authorizer = ports.authorizer
    if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(error_code=Code.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    operations = NOT_ASKED
    if request.include_authorized_operations:
        operations = authorizer.operations(context, ResourceType.GROUP, group_id)
    try:
        shard, _ = ports.groups.shard(group_id)
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    group = shard.groups.get(group_id)
    if group is None:
        view = shard.view(group_id)
        if view is not None and view.type_name == CLASSIC:
            return DescribedGroup(group_id=group_id, group_state=ClassicGroupState.EMPTY.value, authorized_operations=operations)
        says = f"Group {group_id} is not a classic group." if view is not None else f"Group {group_id} not found."
        unknown = context.version >= UNKNOWN_IS_AN_ERROR_FROM
        return DescribedGroup(
            error_code=Code.GROUP_ID_NOT_FOUND if unknown else Code.NONE,
            error_message=clipped(says) if unknown else None,
            group_id=group_id,
            group_state=ClassicGroupState.DEAD.value,
            authorized_operations=NOT_ASKED if unknown else operations,
        )
    # Subscriptions are hidden while a rebalance may change them (ClassicGroupMember.describeNoMetadata).
    is_settled = group.state is ClassicGroupState.STABLE
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_settled else "",
        members=[],
        authorized_operations=operations,
    )
    protocol, members, assignments = group.protocol, list(group.members.values()), group.assignments
    for m in members:
        described.members.append(
            DescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata(protocol) if is_settled else b"",
                member_assignment=assignments.get(m.member_id, b""),
            )
        )
        if pace.spend(MEMBER_WORK):
            await next_turn()
    return described


def failed(request: DescribeGroupsRequest, version: int, code: Code) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        throttle_time_ms=0,
        groups=[DescribedGroup(error_code=code, error_message=None, group_id=group_id) for group_id in request.groups],
    )


API = Declaration(
    key=15,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP", by_handler=True),
    is_bulky=True,
)
