"""LeaveGroup, versions 0 to 5 (KIP-345, KIP-800): one member up to version 2, many from 3 on."""

from __future__ import annotations

from broker.api import Context, Declaration
from protocol.errors import Code, KafkaError
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


def handle(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse:
    broker = context.broker
    leaving: list[tuple[str, str | None]] = (
        [(request.member_id, None)] if context.version < 3 else [(m.member_id, m.group_instance_id) for m in request.members]
    )
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        shard, runtime = broker.groups.shard(request.group_id)
        codes = runtime.execute(shard.membership.leave(request.group_id, leaving, broker.env.steady_ms()))
    except KafkaError as error:
        if context.version >= 3 and error.code is Code.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(0, 0, [MemberResponse(m, i, error.code) for m, i in leaving])
        return failed(request, context.version, error.code)
    if context.version < 3:
        return LeaveGroupResponse(0, codes[0])
    return LeaveGroupResponse(0, 0, [MemberResponse(m, i, code) for (m, i), code in zip(leaving, codes, strict=True)])


def failed(request: LeaveGroupRequest, version: int, code: Code) -> LeaveGroupResponse:
    return LeaveGroupResponse(0, code)


API = Declaration(13, handle, failed)
