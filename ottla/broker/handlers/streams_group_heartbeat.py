"""StreamsGroupHeartbeat, versions 0 and 1 (KIP-1071): a member joins a streams group, stays in it or leaves it.

- 1 (KIP-1331): the response may request a description of the topology. ottla stores none, and never requests one.

Missing internal topics of the topology are created as by a CreateTopics request of the member; the next heartbeat uses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.create_topics import CREATE_WORK, create
from ottla.broker.handlers.support.common import check_described, denied_topics
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.loop.env import Clock, Randomness
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.placement import Placement
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.coordinator.group.streams.configuration import InternalTopic
from ottla.coordinator.group.streams.requests import StreamsHeartbeatOutcome, check_heartbeat
from ottla.coordinator.group.streams.status import StatusCode
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    cluster: ClusterCommands
    clock: Clock
    live_config: LiveConfig
    quotas: ClientQuotaEnforcement
    randomness: Randomness

    @property
    def placement(self) -> Placement: ...


async def handle(ports: Ports, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsGroupHeartbeatResponse:
    try:
        if not ports.groups.offers_streams_protocol:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        await check_described(ports.authorizer, context, _topics(request))
        check_heartbeat(request)
        shard, runtime = ports.groups.shard(request.group_id)
        beat = Heartbeat(request, context.client_id, f"/{context.client_host}", context.version)
        outcome = runtime.execute(shard.streams_heartbeat(beat, ports.clock.steady_ms()))
    except KafkaError as error:
        return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return await _with_topics(ports, context, outcome) if outcome.missing_topics else outcome.answer


async def _with_topics(ports: Ports, context: RequestContext, outcome: StreamsHeartbeatOutcome) -> StreamsGroupHeartbeatResponse:
    """Create the missing internal topics. Returns the response; its status has the reasons if topics could not be created.

    If the client lacks the permission to create one of the topics, none is created.
    """
    denied = await _uncreatable(ports.authorizer, context, outcome.missing_topics)
    if denied:
        _add_detail(outcome.answer, f"Unauthorized to CREATE on topics {','.join(denied)}.")
        return outcome.answer
    failures, pace = [], Pace(double_first=True)
    # Kafka sends a CreateTopics request of the newest version in the member's name (createStreamsInternalTopics). So topics beyond
    # the quota are refused, and the heartbeat is not throttled.
    quota = ports.quotas.mutation_quota(context, strict_from=0)
    for topic in outcome.missing_topics.values():
        if pace.spend(CREATE_WORK):
            await next_turn()
        try:
            await create(ports, _creatable(topic), record=quota.record)
        except KafkaError as error:
            if error.code is not Code.TOPIC_ALREADY_EXISTS:
                failures.append(f"{topic.name} ({error.message or error.code.name})")
    if failures:
        _add_detail(outcome.answer, f"Creation failed: {', '.join(failures)}")
    return outcome.answer


def _add_detail(answer: StreamsGroupHeartbeatResponse, detail: str) -> None:
    for status in answer.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"


async def _uncreatable(authorizer: RequestAuthorizer, context: RequestContext, names: Collection[str]) -> list[str]:
    if authorizer.allows(context, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        return []
    denied = await denied_topics(authorizer, context, AclOperation.CREATE, names)
    return [name for name in names if name in denied]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    """The request to create a topic. Without a replication factor from the application, the broker's default applies."""
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def failed(request: StreamsGroupHeartbeatRequest, version: int, code: Code) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=code)


def _topics(request: StreamsGroupHeartbeatRequest) -> Iterator[str]:
    for subtopology in () if request.topology is None else request.topology.subtopologies or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
            yield from (topic.name for topic in topics)


API = Declaration(
    key=88,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC"),
)
