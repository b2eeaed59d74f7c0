"""Heartbeat, versions 0 to 4 (KIP-345)."""

from __future__ import annotations

from ottla.broker.api import Context, Declaration
from ottla.broker.authorisation import authorisations
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: Context, request: HeartbeatRequest) -> HeartbeatResponse:
    broker = context.broker
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        shard, _ = broker.groups.shard(request.group_id)
        shard.membership.heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id, broker.env.steady_ms()
        )
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return HeartbeatResponse()


def failed(request: HeartbeatRequest, version: int, code: Code) -> HeartbeatResponse:
    return HeartbeatResponse(0, code)


API = Declaration(
    key=12,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP"),
)
