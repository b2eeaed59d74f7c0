"""ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848): a member joins a consumer group, stays in it or leaves it.

- 1: the member generates its own id, and may subscribe by a regular expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import check_described
from ottla.broker.loop.env import Clock
from ottla.coordinator.group.consumer.heartbeat import check_heartbeat
from ottla.coordinator.group.consumer.member import HeldPartitions
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.coordinator.group.subscriptions import Expansions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.steps import Pace, Steps, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

PARTITIONS_PER_UNIT = 20
"""Number of a member's owned partitions that are read in one unit of work (`protocol.steps.Pace`)."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    clock: Clock


async def handle(ports: Ports, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerGroupHeartbeatResponse:
    try:
        if not ports.groups.offers_consumer_protocol:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        await check_described(ports.authorizer, context, request.subscribed_topic_names or ())
        owned = await _owned(request.topic_partitions)
        beat = Heartbeat(request, context.client_id, f"/{context.client_host}", context.version, owned)
        check_heartbeat(beat, ports.groups.config.consumer_of(request.group_id).assignors)
        shard, _ = ports.groups.shard(request.group_id)
        expansions = await _visible_topics(ports.authorizer, context, lambda: shard.consumers.expansions(beat))
        # Get the shard again, because it may have been reloaded while regular expressions were expanded.
        shard, runtime = ports.groups.shard(request.group_id)
        answer = runtime.execute(shard.heartbeat(beat, ports.clock.steady_ms(), expansions))
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


async def _visible_topics(
    authorizer: RequestAuthorizer, context: RequestContext, expand: Callable[[], Steps[Expansions]]
) -> Expansions:
    """The topics that match each regular expression and that the client may describe.

    If the permission checks take several steps, the expressions are expanded again, because topics may have changed meanwhile.
    """
    may_see, pace = dict[str, bool](), Pace(double_first=True)
    while True:
        expansions, has_paused = await expand(), False
        if not authorizer.is_enabled:
            return expansions
        for name in {name for names in expansions.values() if isinstance(names, frozenset) for name in names} - may_see.keys():
            may_see[name] = authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=False)
            if pace.spend(1):
                has_paused = True
                await next_turn()
        if not has_paused:
            return {
                expression: frozenset(name for name in names if may_see[name]) if isinstance(names, frozenset) else names
                for expression, names in expansions.items()
            }


async def _owned(topics: list[TopicPartitions] | None) -> dict[bytes, frozenset[int]] | None:
    """The partitions that the member owns, by topic id, read in steps: a regular expression may match very many topics."""
    if topics is None:
        return None
    owned, pace = dict[bytes, frozenset[int]](), Pace(double_first=True)
    for topic in topics:
        owned[topic.topic_id] = frozenset(topic.partitions)
        if pace.spend(1 + len(topic.partitions) // PARTITIONS_PER_UNIT):
            await next_turn()
    return owned


def _assignment(partitions: HeldPartitions) -> Assignment:
    return Assignment([TopicPartitions(topic_id=topic, partitions=sorted(epochs)) for topic, epochs in partitions.items()])


def failed(request: ConsumerGroupHeartbeatRequest, version: int, code: Code) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


API = Declaration(
    key=68,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, DESCRIBE TOPIC"),
)
