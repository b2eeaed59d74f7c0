"""Describes consumer, streams and share groups, one after the other, each with its own error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import GROUP_OPERATIONS, NOT_ASKED
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import Code, KafkaError, clipped
from ottla.protocol.java_hash import id_work
from ottla.protocol.steps import Pace, Steps, next_turn


class DescribeRequest(Protocol):
    @property
    def group_ids(self) -> list[str]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


class Described(Protocol):
    authorized_operations: int


D = TypeVar("D", bound=Described)


async def described_groups(
    groups: Groups,
    request: DescribeRequest,
    describe: Callable[[GroupShard, str, Pace], Steps[D]],
    refused: Callable[[str, KafkaError], D],
) -> list[D]:
    """The descriptions in the request's order. If ``describe`` raises a `KafkaError`, ``refused`` makes the description."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    described, pace = [], Pace(double_first=True)
    for group_id in request.group_ids:
        if pace.spend(id_work(group_id)):
            await next_turn()
        try:
            if not group_id:
                raise KafkaError(Code.INVALID_GROUP_ID)
            shard, _ = groups.shard(group_id)
            group = await describe(shard, group_id, pace)
            group.authorized_operations = operations
        except KafkaError as error:
            group = refused(group_id, error)
        described.append(group)
    return described


def unknown_group(shard: GroupShard, group_id: str, kind: str) -> KafkaError:
    """The error for a group that does not exist, or is of another type than ``kind``."""
    says = f"Group {group_id} is not a {kind} group." if shard.exists(group_id) else f"Group {group_id} not found."
    return KafkaError(Code.GROUP_ID_NOT_FOUND, clipped(says))


def named_partitions(assigned: Mapping[bytes, Iterable[int]], topics: GroupTopics) -> list[tuple[bytes, str, list[int]]]:
    """Topic ids, names and partitions. Topics that no longer exist are left out."""
    named = ((topic, topics.topic_name(topic), indexes) for topic, indexes in assigned.items())
    return [(topic, name, sorted(indexes)) for topic, name, indexes in named if name is not None]
