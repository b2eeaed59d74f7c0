"""The assignor of share groups (Kafka's SimpleAssignor, KIP-932). With more members than partitions, several members share a
partition.

Members get about equally many partitions, and partitions about equally many members; within these limits a member keeps its
partitions. If all members subscribe to the same topics, the partitions of all topics are assigned together. Otherwise each topic is
assigned separately, so a member of several topics gets more partitions. In both cases some partitions may have fewer members than
others, but each has at least one.

If subscriptions differ, Kafka leaves a member with partitions of topics that no longer have a subscriber, and with partitions that
may not be assigned. Here the member loses both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember, have_equal_subscriptions, in_topic_order

Partition = tuple[bytes, int]


def assign_simply(
    members: Mapping[str, AssignorMember], partition_counts: Mapping[bytes, int], assignable: Assignment | None = None
) -> dict[str, Assignment]:
    """Return the target assignment (see `Assignor`). ``assignable`` are the partitions with initialized share state, or None for
    all."""
    member_ids = sorted(members)
    subscribers: dict[bytes, list[str]] = {}
    for member_id in member_ids:
        for topic_id in members[member_id].subscribed:
            subscribers.setdefault(topic_id, []).append(member_id)
    partitions = {
        topic_id: _partitions(topic_id, partition_counts[topic_id], assignable) for topic_id in in_topic_order(subscribers)
    }
    assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in member_ids}
    if members and have_equal_subscriptions(members):
        shared = _share([partition for of_topic in partitions.values() for partition in of_topic], member_ids, members)
        _add(assigned, shared)
    else:
        for topic_id, of_topic in partitions.items():
            _add(assigned, _share(of_topic, subscribers[topic_id], members))
    return {
        member_id: {topic_id: frozenset(of_topic) for topic_id, of_topic in by_topic.items()}
        for member_id, by_topic in assigned.items()
    }


def _partitions(topic_id: bytes, count: int, assignable: Assignment | None) -> list[Partition]:
    chosen = range(count) if assignable is None else sorted(p for p in assignable.get(topic_id, ()) if p < count)
    return [(topic_id, partition) for partition in chosen]


def _add(assigned: dict[str, dict[bytes, set[int]]], shared: Mapping[str, set[Partition]]) -> None:
    for member_id, partitions in shared.items():
        for topic_id, partition in partitions:
            assigned[member_id].setdefault(topic_id, set()).add(partition)


def _share(
    partitions: Sequence[Partition], member_ids: Sequence[str], members: Mapping[str, AssignorMember]
) -> dict[str, set[Partition]]:
    """Distribute partitions over members that all subscribe to the partitions' topics. Returns partitions by member id."""
    if not partitions:
        return {}
    members_each = -(-len(member_ids) // len(partitions))
    # Use floating point as Kafka does, so that a rounding error makes the same member's share larger.
    share = members_each * len(partitions) / len(member_ids)
    shares = {member_id: ceil(share * (position + 1)) - ceil(share * position) for position, member_id in enumerate(member_ids)}
    holders = _holders_before(partitions, member_ids, members)
    held: dict[str, set[Partition]] = {member_id: set() for member_id in member_ids}
    for partition in partitions:
        for member_id in holders[partition]:
            held[member_id].add(partition)
    _revoke(holders, held, shares, members_each)
    _assign_rest(holders, held, shares, members_each)
    return held


def _holders_before(
    partitions: Sequence[Partition], member_ids: Sequence[str], members: Mapping[str, AssignorMember]
) -> dict[Partition, list[str]]:
    holders: dict[Partition, list[str]] = {partition: [] for partition in partitions}
    topic_ids = {topic_id for topic_id, _ in partitions}
    for member_id in member_ids:
        for topic_id, numbers in members[member_id].assigned.items():
            if topic_id in topic_ids:
                for number in numbers:
                    if (topic_id, number) in holders:
                        holders[topic_id, number].append(member_id)
    return holders


def _revoke(
    holders: dict[Partition, list[str]], held: dict[str, set[Partition]], shares: Mapping[str, int], members_each: int
) -> None:
    """Revoke each partition from members that have more than their share, then from the first remaining members of the
    partition until ``members_each`` are left."""
    for partition, member_ids in holders.items():
        keep = []
        for member_id in member_ids:
            if len(held[member_id]) > shares[member_id]:
                held[member_id].remove(partition)
            else:
                keep.append(member_id)
        too_many = max(0, len(keep) - members_each)
        for member_id in keep[:too_many]:
            held[member_id].remove(partition)
        holders[partition] = keep[too_many:]


def _assign_rest(
    holders: dict[Partition, list[str]], held: dict[str, set[Partition]], shares: Mapping[str, int], members_each: int
) -> None:
    """Give partitions to members below their share in turn, partition by partition.

    The function ends when all members below their share already have the partition. As in Kafka, it and later partitions then have
    too few members, but at least one.
    """
    with_room = [member_id for member_id, partitions in held.items() if len(partitions) < shares[member_id]]
    turn = 0
    for partition, member_ids in holders.items():
        has_nobody_new = False
        while len(member_ids) < members_each and with_room:
            if turn == len(with_room):
                if has_nobody_new:
                    return
                turn, has_nobody_new = 0, True
            member_id = with_room[turn]
            if partition in held[member_id]:
                turn += 1
                continue
            has_nobody_new = False
            member_ids.append(member_id)
            held[member_id].add(partition)
            if len(held[member_id]) >= shares[member_id]:
                with_room.pop(turn)
            else:
                turn += 1
