"""ShareGroupDescribe, version 1 (KIP-932): describes share groups with their epochs, members and assignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import share_error_message
from ottla.broker.handlers.support.group_descriptions import described_groups, named_partitions, unknown_group
from ottla.coordinator.group.assignors.members import Assignment as Assigned
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.group.share.requests import ASSIGNOR_NAME
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from ottla.protocol.steps import Pace, next_turn

MEMBER_WORK = 10
"""Estimated time to describe a member, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups


async def handle(ports: Ports, request: ShareGroupDescribeRequest, context: RequestContext) -> ShareGroupDescribeResponse:
    if not ports.groups.offers_share_protocol:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)

    async def describe(shard: GroupShard, group_id: str, pace: Pace) -> DescribedGroup:
        return await _describe(shard, group_id, ports.groups.topics, pace)

    return ShareGroupDescribeResponse(groups=(await described_groups(ports, request, context, describe, _refused, _topics)))


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=share_error_message(error), group_id=group_id)


async def _describe(shard: GroupShard, group_id: str, topics: GroupTopics, pace: Pace) -> DescribedGroup:
    """Describe the group as it is at the first step, even if it changes between steps. Raises GROUP_ID_NOT_FOUND."""
    group = shard.shares.groups.get(group_id)
    if group is None:
        raise unknown_group(shard, group_id, "share")
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[],
    )
    for member in list(group.members.values()):
        described.members.append(_member(member, topics))
        if pace.spend(MEMBER_WORK):
            await next_turn()
    return described


def _member(member: ShareGroupMember, topics: GroupTopics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=_assignment(member.assigned, topics),
    )


def _assignment(assigned: Assigned, topics: GroupTopics) -> Assignment:
    named = named_partitions(assigned, topics)
    return Assignment([TopicPartitions(topic_id=topic, topic_name=name, partitions=indexes) for topic, name, indexes in named])


def _topics(group: DescribedGroup) -> Iterator[Iterable[str]]:
    for member in group.members:
        yield (topic.topic_name for topic in member.assignment.topic_partitions)


def failed(request: ShareGroupDescribeRequest, version: int, code: Code) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[DescribedGroup(error_code=code, group_id=g) for g in request.group_ids])


API = Declaration(
    key=77,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
)
