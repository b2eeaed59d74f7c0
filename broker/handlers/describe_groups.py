"""DescribeGroups, versions 0 to 6 (KIP-430, KIP-345, KIP-1043): from version 6 an unknown group is an error."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import GROUP_OPERATIONS, NOT_ASKED
from coordinator.group.group import GroupState
from protocol.errors import Code, KafkaError, clipped
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    return DescribeGroupsResponse(0, [_describe(context, group_id, operations) for group_id in request.groups])


def _describe(context: Context, group_id: str, operations: int) -> DescribedGroup:
    try:
        shard, _ = context.broker.groups.shard(group_id)
    except KafkaError as error:
        return DescribedGroup(error.code, error.message, group_id)
    group = shard.groups.get(group_id)
    if group is None:
        if shard.offsets.of_group(group_id):
            return DescribedGroup(0, None, group_id, GroupState.EMPTY.value, "", "", [], operations)
        unknown = context.version >= 6
        code = Code.GROUP_ID_NOT_FOUND if unknown else Code.NONE
        message = clipped(f"Group {group_id} not found.") if unknown else None
        return DescribedGroup(code, message, group_id, GroupState.DEAD.value, "", "", [], operations)
    members = [
        DescribedGroupMember(
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            m.metadata(group.protocol),
            group.assignments.get(m.member_id, b""),
        )
        for m in group.members.values()
    ]
    return DescribedGroup(
        0, None, group_id, group.state.value, group.protocol_type or "", group.protocol or "", members, operations
    )


def failed(request: DescribeGroupsRequest, version: int, code: Code) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(0, [DescribedGroup(code, None, group_id) for group_id in request.groups])


API = Declaration(15, handle, failed, is_bulky=True)
