"""The members of a group of any protocol, with the partitions that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from ottla.broker.handlers.support.each import made
from ottla.broker.handlers.support.group_descriptions import named_partitions
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.group.consumer_protocol import CONSUMER, read_assignment
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.share.requests import ASSIGNOR_NAME
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.messages.streams_group_describe import Member as StreamsMember
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition

MEMBER_WORK = 10
"""Estimated time per member without its partitions, in units of 2 us."""
PARTITIONS_PER_WORK = 2
"""Number of a member's partitions that are described in about 2 us."""
BYTES_PER_ELEMENT = 4
"""Minimum size in bytes of a partition in the assignment of a classic member."""


M = TypeVar("M")


class _Known(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group. ``assignment`` has partitions by topic, or tasks by subtopology in a streams group.

    ``partitions`` has the partitions that the member reads, also in a streams group. ``epoch`` is None in a classic group.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assignment: dict[str, list[int]]
    partitions: list[TopicPartition]


class GroupMembership(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a group. ``epoch`` is the epoch of the group; None for a classic group."""

    epoch: int | None
    assignor: str
    members: list[GroupMember]


async def membership(shard: GroupShard, group_id: str, topics: GroupTopics) -> GroupMembership:
    """Return the members that a group has at the time of the call; none for a group that has only committed offsets."""
    consumer, share = shard.consumers.groups.get(group_id), shard.shares.groups.get(group_id)
    if consumer is not None:
        assignor = consumer.preferred_assignor() or shard.config.consumer_of(group_id).default_assignor
        members = await _each(consumer.members.values(), lambda member: _member(member, member.member_epoch, _held(member, topics)))
        return GroupMembership(epoch=consumer.group_epoch, assignor=assignor, members=members)
    if share is not None:
        members = await _each(
            share.members.values(), lambda member: _member(member, member.member_epoch, _named(member.assigned, topics))
        )
        return GroupMembership(epoch=share.group_epoch, assignor=ASSIGNOR_NAME, members=members)
    if group_id in shard.streams.groups:
        return await _of_streams(shard.streams.describe(group_id))
    classic = shard.groups.get(group_id)
    return GroupMembership(epoch=None, assignor="", members=[]) if classic is None else await _of_classic(classic)


async def _of_streams(group: DescribedGroup) -> GroupMembership:
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    sources = {s.subtopology_id: [*s.source_topics, *(t.name for t in s.repartition_source_topics)] for s in subtopologies}

    def describe(member: StreamsMember) -> GroupMember:
        tasks = {task.subtopology_id: sorted(task.partitions) for task in member.assignment.active_tasks}
        # Skip tasks of a topology that the group no longer has.
        read = [(topic, index) for task, indexes in tasks.items() for topic in sources.get(task, ()) for index in indexes]
        return _member(member, member.member_epoch, tasks, sorted(read))

    members = await _each(group.members, describe)
    return GroupMembership(epoch=group.group_epoch, assignor=group.assignor_name or "", members=members)


async def _of_classic(group: ClassicGroup) -> GroupMembership:
    # Decode only consumers' assignments: Kafka Connect, for example, encodes its assignments differently.
    is_consumer = group.protocol_type in (None, "", CONSUMER)
    members, assignments, assignor = list(group.members.values()), group.assignments, group.protocol or ""
    decoded: dict[str, dict[str, list[int]]] = {}
    for member in members if is_consumer else ():
        raw = assignments.get(member.member_id, b"")
        decoded[member.member_id] = await made(partial(_classic_assignment, raw), len(raw) // BYTES_PER_ELEMENT)
    described = await _each(members, lambda member: _member(member, None, decoded.get(member.member_id, {})))
    return GroupMembership(epoch=None, assignor=assignor, members=described)


def _classic_assignment(raw: bytes) -> dict[str, list[int]]:
    """Decode the assignment of a consumer; empty if the bytes are no assignment."""
    try:
        return {topic: sorted(indexes) for topic, indexes in read_assignment(raw).partitions.items()}
    except DecodeError:
        return {}


def _held(member: ConsumerGroupMember, topics: GroupTopics) -> dict[str, list[int]]:
    held: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.revoking):
        for topic, epochs in partitions.items():
            held.setdefault(topic, []).extend(epochs)
    return _named(held, topics)


def _named(assigned: Mapping[bytes, Iterable[int]], topics: GroupTopics) -> dict[str, list[int]]:
    return {name: indexes for _, name, indexes in named_partitions(assigned, topics)}


async def _each(members: Iterable[M], describe: Callable[[M], GroupMember]) -> list[GroupMember]:
    described, pace = [], Pace()
    for member in list(members):
        described.append(describe(member))
        if pace.spend(MEMBER_WORK + len(described[-1].partitions) // PARTITIONS_PER_WORK):
            await next_turn()
    return described


def _member(
    member: _Known, epoch: int | None, assignment: dict[str, list[int]], read: list[TopicPartition] | None = None
) -> GroupMember:
    """Describe a member. ``read`` are the partitions that it reads, by default the assigned partitions."""
    if read is None:
        read = [(topic, index) for topic, indexes in sorted(assignment.items()) for index in indexes]
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        epoch=epoch,
        assignment=assignment,
        partitions=read,
    )
