"""The assignor "uniform" (Kafka's UniformAssignor): members get equally many partitions, and as few partitions as possible move.

If all members subscribe to the same topics, their partition counts differ by at most one, and no partition moves unnecessarily.
Otherwise each topic's subscribers are balanced in turn (`different_subscriptions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.coordinator.group.assignors import different_subscriptions
from ottla.coordinator.group.assignors.members import (
    NO_OWNER,
    Assignment,
    AssignorMember,
    assignments_by_owner,
    have_equal_subscriptions,
    in_topic_order,
    owners_before,
)


def assign_uniformly(members: Mapping[str, AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Return the target assignment (see `Assignor`)."""
    if not members:
        return {}
    if have_equal_subscriptions(members):
        return _assign_to_equals(members, partition_counts)
    return different_subscriptions.assign(members, partition_counts)


def _assign_to_equals(members: Mapping[str, AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Let each member keep its partitions up to its share.

    Members below their share get the partitions without an owner, then partitions that exceed other members' shares.
    """
    member_ids = sorted(members)
    topic_ids = in_topic_order(members[member_ids[0]].subscribed)
    owners = owners_before(
        [members[member_id] for member_id in member_ids], {topic_id: partition_counts[topic_id] for topic_id in topic_ids}
    )
    room = _shares(_partition_counts_of_members(owners, len(member_ids)), sum(map(len, owners.values())))
    without_owner: list[tuple[bytes, int]] = []
    above_share: list[list[tuple[bytes, int]]] = [[] for _ in member_ids]
    for topic_id, topic_owners in owners.items():
        for partition, owner in enumerate(topic_owners):
            if owner == NO_OWNER:
                without_owner.append((topic_id, partition))
            elif room[owner]:
                room[owner] -= 1
            else:
                above_share[owner].append((topic_id, partition))
    to_assign = without_owner + [partition for partitions in above_share for partition in partitions]
    takers = [member for member, partition_count in enumerate(room) for _ in range(partition_count)]
    for (topic_id, partition), taker in zip(to_assign, takers, strict=True):
        owners[topic_id][partition] = taker
    return assignments_by_owner(member_ids, owners)


def _partition_counts_of_members(owners: Mapping[bytes, Sequence[int]], member_count: int) -> list[int]:
    counts = [0] * member_count
    for topic_owners in owners.values():
        for owner in topic_owners:
            if owner != NO_OWNER:
                counts[owner] += 1
    return counts


def _shares(counts: Sequence[int], partition_count: int) -> list[int]:
    """Return each member's number of partitions. Extra partitions go first to members that already have more than the minimum."""
    least, extras = divmod(partition_count, len(counts))
    shares = []
    for member, count in enumerate(counts):
        gets_extra = extras > 0 and (count > least or len(counts) - member <= extras)
        extras -= gets_extra
        shares.append(least + gets_extra)
    return shares
