"""Describes consumer, streams and share groups, one after the other, each with its own error.

A client needs DESCRIBE on a group, and on all topics that the description names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.groups import Groups
from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.topics import GroupTopics
from ottla.protocol.errors import Code, KafkaError, clipped
from ottla.protocol.java_hash import id_work
from ottla.protocol.steps import Pace, Steps, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups


class DescribeRequest(Protocol):
    @property
    def group_ids(self) -> list[str]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


class Described(Protocol):
    authorized_operations: int


D = TypeVar("D", bound=Described)


async def described_groups(
    ports: Ports,
    request: DescribeRequest,
    context: RequestContext,
    describe: Callable[[GroupShard, str, Pace], Steps[D]],
    refused: Callable[[str, KafkaError], D],
    topics_of: Callable[[D], Iterable[Iterable[str]]],
    hidden_topics: str = HIDDEN_TOPICS,
) -> list[D]:
    """Describe groups in the request's order, but list first the groups that the client may not describe.

    ``refused`` makes the description for a `KafkaError` of ``describe``. ``topics_of`` yields the topic names in a description;
    ``hidden_topics`` is the error message if the client may not describe one of these topics.
    """
    authorizer, pace = ports.authorizer, Pace(double_first=True)
    described, denied = list[D](), list[D]()
    for group_id in request.group_ids:
        if pace.spend(id_work(group_id)):
            await next_turn()
        if not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            denied.append(refused(group_id, KafkaError(Code.GROUP_AUTHORIZATION_FAILED)))
            continue
        try:
            if not group_id:
                raise KafkaError(Code.INVALID_GROUP_ID)
            shard, _ = ports.groups.shard(group_id)
            group = await describe(shard, group_id, pace)
            if authorizer.is_enabled:
                await _check_topics(authorizer, context, topics_of(group), pace, hidden_topics)
            operations = authorizer.operations(context, ResourceType.GROUP, group_id)
            group.authorized_operations = operations if request.include_authorized_operations else NOT_ASKED
        except KafkaError as error:
            group = refused(group_id, error)
        described.append(group)
    return denied + described


async def _check_topics(
    authorizer: RequestAuthorizer, context: RequestContext, topics: Iterable[Iterable[str]], pace: Pace, message: str
) -> None:
    checked = set[str]()
    for names in topics:
        for name in names:
            if pace.spend(1):
                await next_turn()
            if name not in checked and not authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED, message)
            checked.add(name)


def unknown_group(shard: GroupShard, group_id: str, kind: str) -> KafkaError:
    """The error for a group that does not exist, or is of another type than ``kind``."""
    says = f"Group {group_id} is not a {kind} group." if shard.exists(group_id) else f"Group {group_id} not found."
    return KafkaError(Code.GROUP_ID_NOT_FOUND, clipped(says))


def named_partitions(assigned: Mapping[bytes, Iterable[int]], topics: GroupTopics) -> list[tuple[bytes, str, list[int]]]:
    """Return topic id, name and sorted partitions of each assigned topic. Topics that no longer exist are left out."""
    named = ((topic, topics.topic_name(topic), indexes) for topic, indexes in assigned.items())
    return [(topic, name, sorted(indexes)) for topic, name, indexes in named if name is not None]
