"""Heartbeat, versions 0 to 4: keeps a member's session alive, and returns REBALANCE_IN_PROGRESS during a rebalance.

- 3 (KIP-345): static members, which may be fenced.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.coordinators.groups import Groups
from ottla.broker.loop.env import Clock
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Ports(Protocol):
    groups: Groups
    clock: Clock


async def handle(ports: Ports, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        shard, _ = ports.groups.shard(request.group_id)
        shard.classic_heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id, ports.clock.steady_ms()
        )
    except KafkaError as error:
        if error.code is not Code.COORDINATOR_LOAD_IN_PROGRESS:
            return failed(request, context.version, error.code)
        # As in Kafka a heartbeat succeeds while the coordinator loads the group. Loading restarts the member's session.
    return HeartbeatResponse()


def failed(request: HeartbeatRequest, version: int, code: Code) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=code)


API = Declaration(key=12, handle=handle, failed=failed, authorisation=authorisations("READ GROUP group_id"))
