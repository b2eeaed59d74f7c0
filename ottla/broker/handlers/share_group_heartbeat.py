"""ShareGroupHeartbeat, version 1 (KIP-932): a member joins a share group, stays in it or leaves it.

Before the response is sent, the share coordinator initializes partitions that are new to the group. The next heartbeat assigns
them.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.broker.handlers.support.common import check_described
from ottla.broker.loop.env import Clock
from ottla.coordinator.group.assignors.members import Assignment as Assigned
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.coordinator.group.share.requests import ShareHeartbeatAnswer, check_heartbeat
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    share_groups: ShareGroupStates
    clock: Clock


async def handle(ports: Ports, request: ShareGroupHeartbeatRequest, context: RequestContext) -> ShareGroupHeartbeatResponse:
    try:
        if not ports.groups.offers_share_protocol:
            raise KafkaError(Code.UNSUPPORTED_VERSION, "The version of API is not supported.")
        await check_described(ports.authorizer, context, request.subscribed_topic_names or ())
        check_heartbeat(request)
        shard, runtime = ports.groups.shard(request.group_id)
        beat = Heartbeat(request, context.client_id, f"/{context.client_host}", context.version)
        outcome = runtime.execute(shard.share_heartbeat(beat, ports.clock.steady_ms()))
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if outcome.initialization is not None:
        await ports.share_groups.initialize(outcome.initialization)
    return _answer(outcome.answer)


def _answer(answer: ShareHeartbeatAnswer) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _assignment(assigned: Assigned) -> Assignment:
    return Assignment([TopicPartitions(topic_id=topic, partitions=sorted(numbers)) for topic, numbers in assigned.items()])


def failed(request: ShareGroupHeartbeatRequest, version: int, code: Code) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code)


API = Declaration(
    key=76,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, DESCRIBE TOPIC"),
)
