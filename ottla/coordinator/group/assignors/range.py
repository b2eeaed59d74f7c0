"""The assignor "range" (Kafka's RangeAssignor): each member gets adjacent partitions of each topic.

The assignor ignores the previous assignment, but partitions mostly stay, because members are in the same order each time. Topics
with equal partition counts and equal subscribers are co-partitioned: a member has the same partitions of each of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember, java_order


def assign_ranges(members: Mapping[str, AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Return the target assignment (see `Assignor`)."""
    subscribers: dict[bytes, list[str]] = {}
    for member_id in _static_members_first(members):
        for topic_id in members[member_id].subscribed:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignments: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, member_ids in subscribers.items():
        least, members_with_one_more = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        # If there are more members than partitions, only the first members get a partition.
        for position, member_id in enumerate(member_ids if least else member_ids[:members_with_one_more]):
            end = start + least + (position < members_with_one_more)
            assignments[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return {**assignments}


def _static_members_first(members: Mapping[str, AssignorMember]) -> list[str]:
    """Sort static members by instance id, then the other members by member id.

    So a static member that rejoins with a new member id gets the same partitions again.
    """

    def order(member_id: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(instance_id or ""), java_order(member_id)

    return sorted(members, key=order)
