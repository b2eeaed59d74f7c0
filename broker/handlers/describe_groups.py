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
        if shard.exists(group_id):
            return DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value, authorized_operations=operations)
        unknown = context.version >= 6
        code = Code.GROUP_ID_NOT_FOUND if unknown else Code.NONE
        message = clipped(f"Group {group_id} not found.") if unknown else None
        return DescribedGroup(
            error_code=code,
            error_message=message,
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            authorized_operations=operations,
        )
    # What a rebalance is about to change is shown to nobody (ClassicGroupMember.describeNoMetadata).
    is_settled = group.state is GroupState.STABLE
    members = [
        DescribedGroupMember(
            member_id=m.member_id,
            group_instance_id=m.instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            member_metadata=m.metadata(group.protocol) if is_settled else b"",
            member_assignment=group.assignments.get(m.member_id, b"") if is_settled else b"",
        )
        for m in group.members.values()
    ]
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_settled else "",
        members=members,
        authorized_operations=operations,
    )


def failed(request: DescribeGroupsRequest, version: int, code: Code) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(0, [DescribedGroup(code, None, group_id) for group_id in request.groups])


API = Declaration(15, handle, failed, is_bulky=True)
