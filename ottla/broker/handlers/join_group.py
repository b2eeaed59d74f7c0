"""JoinGroup, versions 0 to 9: adds a member to a group. Responds when the whole group has joined.

- 1 (KIP-62): the request has a rebalance timeout besides the session timeout.
- 4 (KIP-394): a client without a member id gets one with MEMBER_ID_REQUIRED, and must join again with it.
- 5 (KIP-345): static members.
- 7 (KIP-559): the response has the protocol type; a group without a protocol has null instead of "".
- 8 (KIP-800): the request has a reason, which is ignored.
- 9 (KIP-814): the response may let a static leader that joins again skip the assignment.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.groups import Groups
from ottla.broker.loop.env import Clock
from ottla.coordinator.group.requests import JoinAnswer, JoinRequest
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.steps import Pause

REBALANCE_TIMEOUT_FROM = 1
KNOWN_ID_FROM = 4
NULL_PROTOCOL_FROM = 7
SKIP_ASSIGNMENT_FROM = 9


class Ports(Protocol):
    groups: Groups
    clock: Clock


async def handle(ports: Ports, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    version = context.version
    joined: Pause[JoinAnswer] = Pause(is_parked=True)
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        shard, runtime = ports.groups.shard(request.group_id)
        join = JoinRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=context.client_id,
            client_host=f"/{context.client_host}",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=(
                request.rebalance_timeout_ms if version >= REBALANCE_TIMEOUT_FROM else request.session_timeout_ms
            ),
            protocol_type=request.protocol_type,
            protocols=[(p.name, p.metadata) for p in request.protocols],
            needs_known_id=version >= KNOWN_ID_FROM,
            waiter=joined.end,
            supports_skip_assignment=version >= SKIP_ASSIGNMENT_FROM,
        )
        runtime.execute(shard.join(join, ports.clock.steady_ms()))
    except KafkaError as error:
        return failed(request, version, error.code)
    return _response(await joined, version)


def _response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=answer.code,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=_no_protocol(version) if answer.protocol is None else answer.protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in answer.members
        ],
    )


def _no_protocol(version: int) -> str | None:
    """The protocol name in the response for a group without a protocol: "" in versions before 7, which cannot send null."""
    return None if version >= NULL_PROTOCOL_FROM else ""


def failed(request: JoinGroupRequest, version: int, code: Code) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, generation_id=-1, protocol_type=None, protocol_name=_no_protocol(version), member_id=request.member_id
    )


API = Declaration(key=11, handle=handle, failed=failed, authorisation=authorisations("READ GROUP group_id"))
