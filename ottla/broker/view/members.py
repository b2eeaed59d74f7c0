"""The members of a group of any protocol, with the partitions that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from ottla.broker.handlers.support.each import made
from ottla.broker.handlers.support.group_descriptions import named_partitions
from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer_protocol import CONSUMER, read_assignment
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.requests import ASSIGNOR_NAME
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition

MEMBER_WORK = 10
"""The cost of a member without its partitions, in units of `protocol.steps.Pace`."""
PARTITIONS_PER_WORK = 2
"""Number of a member's partitions that are named in one unit of work."""
BYTES_PER_ELEMENT = 4
"""The least size of a partition in the assignment of a classic member."""


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group. ``assignment`` has partitions by topic; for a member of a streams group tasks by subtopology.

    ``partitions`` are those that the member reads, also for a member of a streams group. ``epoch`` is None in a classic group.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assignment: dict[str, list[int]]
    partitions: list[TopicPartition]


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a group. ``epoch`` is the group's, None for a classic group."""

    epoch: int | None
    assignor: str
    members: list[GroupMember]


async def membership(shard: GroupShard, group_id: str, topics: GroupTopics) -> Membership:
    """Return the members as they are at the first step, so that they are consistent. No members for a group with offsets only."""
    consumer, share = shard.consumers.groups.get(group_id), shard.shares.groups.get(group_id)
    if consumer is not None:
        assignor = consumer.preferred_assignor() or shard.config.consumer_of(group_id).default_assignor
        return Membership(epoch=consumer.group_epoch, assignor=assignor, members=await _of_consumer(consumer, topics))
    if share is not None:
        return Membership(epoch=share.group_epoch, assignor=ASSIGNOR_NAME, members=await _of_share(share, topics))
    if group_id in shard.streams.groups:
        streams = shard.streams.describe(group_id)
        return Membership(epoch=streams.group_epoch, assignor=streams.assignor_name or "", members=await _of_streams(streams))
    classic = shard.groups.get(group_id)
    if classic is None:
        return Membership(epoch=None, assignor="", members=[])
    return Membership(epoch=None, assignor=classic.protocol or "", members=await _of_classic(classic))


async def _of_consumer(group: ConsumerGroup, topics: GroupTopics) -> list[GroupMember]:
    members, pace = [], Pace()
    for member in list(group.members.values()):
        held: dict[bytes, list[int]] = {}
        for partitions in (member.assigned, member.revoking):
            for topic, epochs in partitions.items():
                held.setdefault(topic, []).extend(epochs)
        assignment = _named(held, topics)
        members.append(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                epoch=member.member_epoch,
                assignment=assignment,
                partitions=_by_topic(assignment),
            )
        )
        if pace.spend(_work(members[-1])):
            await next_turn()
    return members


async def _of_share(group: ShareGroup, topics: GroupTopics) -> list[GroupMember]:
    members, pace = [], Pace()
    for member in list(group.members.values()):
        assignment = _named(member.assigned, topics)
        members.append(
            GroupMember(
                member_id=member.member_id,
                instance_id=None,
                client_id=member.client_id,
                host=member.client_host,
                epoch=member.member_epoch,
                assignment=assignment,
                partitions=_by_topic(assignment),
            )
        )
        if pace.spend(_work(members[-1])):
            await next_turn()
    return members


async def _of_streams(group: DescribedGroup) -> list[GroupMember]:
    members, pace = [], Pace()
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    sources = {s.subtopology_id: [*s.source_topics, *(t.name for t in s.repartition_source_topics)] for s in subtopologies}
    for member in group.members:
        tasks = {task.subtopology_id: sorted(task.partitions) for task in member.assignment.active_tasks}
        # A task may be of a topology that the group no longer has.
        read = [(topic, index) for task, indexes in tasks.items() for topic in sources.get(task, ()) for index in indexes]
        members.append(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                epoch=member.member_epoch,
                assignment=tasks,
                partitions=sorted(read),
            )
        )
        if pace.spend(_work(members[-1])):
            await next_turn()
    return members


async def _of_classic(group: ClassicGroup) -> list[GroupMember]:
    # Other clients of the classic protocol, such as Kafka Connect, have their own format.
    is_consumer = group.protocol_type in (None, "", CONSUMER)
    members, pace = [], Pace()
    assignments = group.assignments
    for member in list(group.members.values()):
        raw = assignments.get(member.member_id, b"") if is_consumer else b""
        assignment = await made(partial(_classic_assignment, raw), len(raw) // BYTES_PER_ELEMENT)
        members.append(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                epoch=None,
                assignment=assignment,
                partitions=_by_topic(assignment),
            )
        )
        if pace.spend(_work(members[-1])):
            await next_turn()
    return members


def _classic_assignment(raw: bytes) -> dict[str, list[int]]:
    """Decode the assignment of a consumer; empty if the bytes are not one."""
    try:
        return {topic: sorted(indexes) for topic, indexes in read_assignment(raw).partitions.items()}
    except DecodeError:
        return {}


def _named(assigned: Mapping[bytes, Iterable[int]] | Assignment, topics: GroupTopics) -> dict[str, list[int]]:
    return {name: indexes for _, name, indexes in named_partitions(assigned, topics)}


def _by_topic(assignment: Mapping[str, Iterable[int]]) -> list[TopicPartition]:
    return [(topic, index) for topic, indexes in sorted(assignment.items()) for index in indexes]


def _work(member: GroupMember) -> int:
    return MEMBER_WORK + len(member.partitions) // PARTITIONS_PER_WORK
