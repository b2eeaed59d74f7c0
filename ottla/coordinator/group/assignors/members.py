"""The input and output of assignors (PartitionAssignor, GroupSpec and GroupAssignment of Kafka), and shared helpers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. Topics without partitions are left out."""

NO_OWNER = -1
"""The owner index of a partition without an owner."""


class AssignorMember(msgspec.Struct, frozen=True):
    """A member as an assignor sees it. ``assigned`` is its previous target assignment, which sticky assignors keep."""

    subscribed: frozenset[bytes]
    assigned: Assignment = {}
    instance_id: str | None = None
    rack_id: str | None = None


Assignor = Callable[[Mapping[str, AssignorMember], Mapping[bytes, int]], dict[str, Assignment]]
"""A function from members by member id, and partition counts by topic id, to a target assignment, possibly empty, for each member
id. It raises KeyError for a subscribed topic without a count. The result must not depend on the order of a mapping or a set. Kafka
iterates over hash maps, whose order is arbitrary too.
"""


def java_order(text: str) -> bytes:
    """Return a key that sorts like Java's String.compareTo, by UTF-16 units. Python compares code points."""
    return text.encode("utf-16-be", "surrogatepass")


def topic_order(topic_id: bytes) -> tuple[int, int]:
    """Return a key that sorts like Kafka's Uuid.compareTo, by two signed halves."""
    high, low = struct.unpack(">qq", topic_id)
    return high, low


def in_topic_order(topic_ids: Iterable[bytes]) -> list[bytes]:
    return sorted(topic_ids, key=topic_order)


def have_equal_subscriptions(members: Mapping[str, AssignorMember]) -> bool:
    """Whether all members subscribe to the same topics. Kafka calls such a group homogeneous (SubscriptionType)."""
    subscriptions = [member.subscribed for member in members.values()]
    return all(subscribed == subscriptions[0] for subscribed in subscriptions)


def owners_before(members: Sequence[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[bytes, list[int]]:
    """Return each partition's previous owner as an index into ``members``, or `NO_OWNER` if that member no longer subscribes to the
    topic.

    Two members may have the same partition if a group was converted from the classic protocol and its clients used their own
    assignor. Then the first member keeps the partition.
    """
    owners = {topic_id: [NO_OWNER] * count for topic_id, count in partition_counts.items()}
    for index, member in enumerate(members):
        for topic_id, partitions in member.assigned.items():
            if topic_id in member.subscribed:
                topic_owners = owners[topic_id]
                for partition in partitions:
                    if partition < len(topic_owners) and topic_owners[partition] == NO_OWNER:
                        topic_owners[partition] = index
    return owners


def assignments_by_owner(member_ids: Sequence[str], owners: Mapping[bytes, Sequence[int]]) -> dict[str, Assignment]:
    """Convert the owner of each partition, an index into ``member_ids`` or `NO_OWNER`, into assignments by member id."""
    assigned: list[dict[bytes, list[int]]] = [{} for _ in member_ids]
    for topic_id, topic_owners in owners.items():
        for partition, owner in enumerate(topic_owners):
            if owner != NO_OWNER:
                assigned[owner].setdefault(topic_id, []).append(partition)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}
        for member_id, by_topic in zip(member_ids, assigned, strict=True)
    }
