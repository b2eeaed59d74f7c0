"""SyncGroup, versions 0 to 5: returns a member's assignment. Responds when the leader has sent the assignments.

- 3 (KIP-345): static members, which may be fenced.
- 5 (KIP-559): the request must have the group's protocol type and protocol.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.loop.env import Clock
from ottla.coordinator.group.requests import SyncAnswer, SyncRequest
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.steps import Pause
from ottla.security.acl.codes import AclOperation, ResourceType


class Ports(Protocol):
    groups: Groups
    clock: Clock


async def handle(ports: Ports, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    synced: Pause[SyncAnswer] = Pause(is_parked=True)
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        if context.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        shard, runtime = ports.groups.shard(request.group_id)
        sync = SyncRequest(
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments={a.member_id: a.assignment for a in request.assignments},
            waiter=synced.end,
        )
        runtime.execute(shard.sync(sync, ports.clock.steady_ms()))
    except KafkaError as error:
        return failed(request, context.version, error.code)
    answer = await synced
    return SyncGroupResponse(
        error_code=answer.code,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )


def failed(request: SyncGroupRequest, version: int, code: Code) -> SyncGroupResponse:
    return SyncGroupResponse(throttle_time_ms=0, error_code=code)


def _authorise(authorizer: RequestAuthorizer, request: SyncGroupRequest, context: RequestContext) -> None:
    # As in Kafka, a request without a protocol gets INCONSISTENT_GROUP_PROTOCOL, even if the client also lacks the permission.
    if context.version < 5 or (request.protocol_type is not None and request.protocol_name is not None):
        check(authorizer, context, AclOperation.READ, ResourceType.GROUP, request.group_id)


API = Declaration(
    key=14,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP"),
    authorise=_authorise,
)
