"""StreamsGroupDescribe, versions 0 and 1 (KIP-1071): describes streams groups with their epochs, topology, members and tasks.

- 1 (KIP-1331): the response has a stored description of the topology. ottla stores none, like a Kafka broker without a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.group_descriptions import described_groups, unknown_group
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.streams.status import DescriptionStatus
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.protocol.steps import Pace, next_turn

HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."
MEMBER_WORK = 20
"""Estimated time to describe a member, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups


async def handle(ports: Ports, request: StreamsGroupDescribeRequest, context: RequestContext) -> StreamsGroupDescribeResponse:
    if not ports.groups.offers_streams_protocol:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)

    async def describe(shard: GroupShard, group_id: str, pace: Pace) -> DescribedGroup:
        if group_id not in shard.streams.groups:
            raise unknown_group(shard, group_id, "streams")
        group = shard.streams.describe(group_id)
        if request.include_topology_description:
            group.topology_description_status = DescriptionStatus.NOT_STORED
        if pace.spend(MEMBER_WORK * len(group.members)):
            await next_turn()
        return group

    return StreamsGroupDescribeResponse(
        groups=(await described_groups(ports, request, context, describe, _refused, _topics, HIDDEN_TOPICS))
    )


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)


def _topics(group: DescribedGroup) -> Iterator[Iterable[str]]:
    for subtopology in () if group.topology is None else group.topology.subtopologies or ():
        yield subtopology.source_topics
        yield subtopology.repartition_sink_topics
        for internal in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
            yield (topic.name for topic in internal)


def failed(request: StreamsGroupDescribeRequest, version: int, code: Code) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=[DescribedGroup(error_code=code, group_id=g) for g in request.group_ids])


API = Declaration(
    key=89,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
)
