"""ConsumerGroupDescribe, versions 0 and 1 (KIP-848): describes consumer groups with their epochs, members and assignments.

- 1 (KIP-1099): the response has the protocol of each member, classic or consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.group_descriptions import described_groups, named_partitions, unknown_group
from ottla.coordinator.group.assignors.members import Assignment as Target
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.protocol.steps import Pace, next_turn

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The types of a member, by the protocol that the member uses."""
MEMBER_WORK = 10
"""Estimated time to describe a member, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups


async def handle(ports: Ports, request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
    if not ports.groups.offers_consumer_protocol:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)

    async def describe(shard: GroupShard, group_id: str, pace: Pace) -> DescribedGroup:
        return await _describe(shard, group_id, ports.groups.topics, pace)

    return ConsumerGroupDescribeResponse(groups=(await described_groups(ports, request, context, describe, _refused, _topics)))


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)


async def _describe(shard: GroupShard, group_id: str, topics: GroupTopics, pace: Pace) -> DescribedGroup:
    """Describe the group as it is at the first step, even if it changes between steps. Raises GROUP_ID_NOT_FOUND."""
    group = shard.consumers.groups.get(group_id)
    if group is None:
        raise unknown_group(shard, group_id, "consumer")
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or shard.config.consumer_of(group_id).default_assignor,
        members=[],
    )
    members = [(member, group.targets.get(member.member_id, {})) for member in group.members.values()]
    for member, target in members:
        described.members.append(_member(member, target, topics))
        if pace.spend(MEMBER_WORK):
            await next_turn()
    return described


def _member(member: ConsumerGroupMember, target: Target, topics: GroupTopics) -> Member:
    held: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.revoking):
        for topic, epochs in partitions.items():
            held.setdefault(topic, []).extend(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: GroupTopics) -> Assignment:
    named = named_partitions(partitions, topics)
    return Assignment([TopicPartitions(topic_id=topic, topic_name=name, partitions=indexes) for topic, name, indexes in named])


def _topics(group: DescribedGroup) -> Iterator[Iterable[str]]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield (topic.topic_name for topic in assignment.topic_partitions)


def failed(request: ConsumerGroupDescribeRequest, version: int, code: Code) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[DescribedGroup(error_code=code, group_id=g) for g in request.group_ids])


API = Declaration(
    key=69,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TOPIC", by_handler=True),
    is_bulky=True,
)
