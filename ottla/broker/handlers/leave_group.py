"""LeaveGroup, versions 0 to 5: removes one member from a group, or since version 3 several.

- 3 (KIP-345): the request may name a member by instance id; each member gets its own error code.
- 5 (KIP-800): the request has a reason, which is ignored.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.groups import Groups
from ottla.broker.loop.env import Clock
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.protocol.steps import next_turn

MEMBERS_PER_STEP = 500
MANY_MEMBERS_FROM = 3

Leaving = list[tuple[str, str | None]]
"""Pairs of member id and instance id."""


class Ports(Protocol):
    groups: Groups
    clock: Clock


async def handle(ports: Ports, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Remove many members in several steps, as if each step were a separate request."""
    members: list[MemberResponse] = []
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        if context.version < MANY_MEMBERS_FROM:
            return LeaveGroupResponse(
                throttle_time_ms=0, error_code=_leave(ports, request.group_id, [(request.member_id, None)])[0]
            )
        for start in range(0, max(len(request.members), 1), MEMBERS_PER_STEP):
            if start:
                await next_turn()
            leaving: Leaving = [(m.member_id, m.group_instance_id) for m in request.members[start : start + MEMBERS_PER_STEP]]
            codes = _leave(ports, request.group_id, leaving)
            members += [
                MemberResponse(member_id=member, group_instance_id=instance, error_code=code)
                for (member, instance), code in zip(leaving, codes, strict=True)
            ]
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=members)


def _leave(ports: Ports, group_id: str, leaving: Leaving) -> list[Code]:
    shard, runtime = ports.groups.shard(group_id)
    try:
        return runtime.execute(shard.leave(group_id, leaving, ports.clock.steady_ms()))
    except KafkaError as error:
        if error.code is not Code.UNKNOWN_MEMBER_ID:
            raise
        return [error.code] * len(leaving)


def failed(request: LeaveGroupRequest, version: int, code: Code) -> LeaveGroupResponse:
    return LeaveGroupResponse(throttle_time_ms=0, error_code=code)


API = Declaration(key=13, handle=handle, failed=failed, authorisation=authorisations("READ GROUP group_id"))
