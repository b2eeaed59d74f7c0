"""What an assignor is given and gives (PartitionAssignor, GroupSpec and GroupAssignment of Kafka), and what assignors share."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. A topic without partitions is left out."""

NOBODY = -1
"""The owner of a partition that no member has."""


class AssignorMember(msgspec.Struct, frozen=True):
    """One member as an assignor sees it. ``assigned`` is the member's target assignment of before, for stickiness."""

    subscribed: frozenset[bytes]
    assigned: Assignment = {}
    instance_id: str | None = None
    rack_id: str | None = None


Assignor = Callable[[Mapping[str, AssignorMember], Mapping[bytes, int]], dict[str, Assignment]]
"""From members by id and partition counts by topic id to target assignments by member id: one for each member, maybe an empty one.

Raises KeyError for a subscribed topic that has no count. What comes out depends on the arguments alone, not on the order of a
mapping or a set: Kafka goes through hash maps, whose order means nothing either.
"""


def java_order(text: str) -> bytes:
    """The key by which Java's String.compareTo sorts: by UTF-16 units, where Python compares code points."""
    return text.encode("utf-16-be", "surrogatepass")


def topic_order(topic_id: bytes) -> tuple[int, int]:
    """The key by which Kafka's Uuid.compareTo sorts: two signed halves."""
    high, low = struct.unpack(">qq", topic_id)
    return high, low


def in_topic_order(topic_ids: Iterable[bytes]) -> list[bytes]:
    return sorted(topic_ids, key=topic_order)


def have_equal_subscriptions(members: Mapping[str, AssignorMember]) -> bool:
    """Whether a group is homogeneous, in Kafka's word (SubscriptionType)."""
    subscriptions = [member.subscribed for member in members.values()]
    return all(subscribed == subscriptions[0] for subscribed in subscriptions)


def owners_before(members: Sequence[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[bytes, list[int]]:
    """The owners of each topic's partitions, as indices of members: who had them, as far as they still subscribe to the topic.

    Of two members with the same partition, which a group has that comes from the classic protocol with an assignor of its
    clients' own, the first keeps it.
    """
    owners = {topic_id: [NOBODY] * count for topic_id, count in partition_counts.items()}
    for index, member in enumerate(members):
        for topic_id, partitions in member.assigned.items():
            if topic_id in member.subscribed:
                topic_owners = owners[topic_id]
                for partition in partitions:
                    if partition < len(topic_owners) and topic_owners[partition] == NOBODY:
                        topic_owners[partition] = index
    return owners


def assignments_by_owner(member_ids: Sequence[str], owners: Mapping[bytes, Sequence[int]]) -> dict[str, Assignment]:
    """Turn round what an assignor has decided: the owner of each partition, as an index into ``member_ids`` or NOBODY."""
    assigned: list[dict[bytes, list[int]]] = [{} for _ in member_ids]
    for topic_id, topic_owners in owners.items():
        for partition, owner in enumerate(topic_owners):
            if owner != NOBODY:
                assigned[owner].setdefault(topic_id, []).append(partition)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}
        for member_id, by_topic in zip(member_ids, assigned, strict=True)
    }
