"""The part of the assignor "uniform" for groups whose members do not all subscribe to the same topics.

It works like Kafka's UniformHeterogeneousAssignmentBuilder, in three stages. First, members keep the partitions of topics that they
still subscribe to. Second, partitions without an owner go to the least loaded subscribers, the hardest topics first. Third, topic
by topic, partitions move from the most to the least loaded subscribers, until the loads of each topic's subscribers differ by at
most one, or after `MAX_ROUNDS` rounds.

The final loads may still differ by more than one, as in Kafka: a subscriber with a high load may own no partition of the topic, and
if subscriptions overlap only in part, not every member may take every partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.coordinator.group.assignors.members import (
    NO_OWNER,
    Assignment,
    AssignorMember,
    assignments_by_owner,
    owners_before,
    topic_order,
)

MAX_ROUNDS = 16
"""Maximum number of rounds of the third stage over all topics. Two rounds are enough unless subscriptions overlap."""


class _Draft:
    """An assignment under construction. Members are indices into the sorted member ids; topics are ordered, the hardest first."""

    __slots__ = ("owners", "sizes", "subscribers")

    def __init__(self, members: list[AssignorMember], partition_counts: Mapping[bytes, int]) -> None:
        self.subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.subscribed:
                self.subscribers.setdefault(topic_id, []).append(index)
        topic_ids = _hardest_first(self.subscribers, partition_counts)
        self.owners = owners_before(members, {topic_id: partition_counts[topic_id] for topic_id in topic_ids})
        self.sizes = [0] * len(members)
        """Each member's number of partitions of all topics together."""
        for owners in self.owners.values():
            for owner in owners:
                if owner != NO_OWNER:
                    self.sizes[owner] += 1


def assign(members: Mapping[str, AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Return the target assignment (see `Assignor`)."""
    member_ids = sorted(members)
    draft = _Draft([members[member_id] for member_id in member_ids], partition_counts)
    for topic_id in draft.owners:
        _assign_without_owner(draft, topic_id)
    _balance(draft)
    return assignments_by_owner(member_ids, draft.owners)


def _hardest_first(subscribers: Mapping[bytes, list[int]], partition_counts: Mapping[bytes, int]) -> list[bytes]:
    """Sort the topics by partitions per subscriber, highest first, then by number of subscribers, lowest first.

    These topics leave the least choice, so they are assigned first, and later topics can even out the loads.
    """

    def order(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        subscriber_count = len(subscribers[topic_id])
        return -partition_counts[topic_id] / subscriber_count, subscriber_count, topic_order(topic_id)

    return sorted(subscribers, key=order)


def _assign_without_owner(draft: _Draft, topic_id: bytes) -> None:
    owners = draft.owners[topic_id]
    without_owner = [partition for partition, owner in enumerate(owners) if owner == NO_OWNER]
    if without_owner:
        least_loaded = _least_loaded(draft, sorted(draft.subscribers[topic_id], key=draft.sizes.__getitem__))
        for partition in without_owner:
            taker, _ = next(least_loaded)
            owners[partition] = taker
            draft.sizes[taker] += 1


def _balance(draft: _Draft) -> None:
    topic_ids = [topic_id for topic_id in draft.owners if len(draft.subscribers[topic_id]) > 1]
    balanced_topics = 0
    for _ in range(MAX_ROUNDS):
        for topic_id in topic_ids:
            balanced_topics = 1 if _balance_topic(draft, topic_id) else balanced_topics + 1
            if balanced_topics == len(topic_ids):
                return


def _balance_topic(draft: _Draft, topic_id: bytes) -> bool:
    sizes = draft.sizes
    loads = [sizes[subscriber] for subscriber in draft.subscribers[topic_id]]
    if max(loads) - min(loads) <= 1:
        return False
    by_load = sorted(draft.subscribers[topic_id], key=sizes.__getitem__)
    owners = draft.owners[topic_id]
    held: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        held.setdefault(owner, []).append(partition)
    has_moved = False
    least_loaded = _least_loaded(draft, by_load)
    for giver, giver_level in _most_loaded(draft, by_load, held):
        taker, taker_level = next(least_loaded)
        if giver_level - taker_level <= 1:
            break
        owners[held[giver].pop()] = taker
        sizes[giver] -= 1
        sizes[taker] += 1
        has_moved = True
    return has_moved


def _least_loaded(draft: _Draft, by_load: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the subscriber that gets the next partition, and its load until then. ``by_load`` is in ascending order of load.

    The least loaded subscribers get partitions until their load equals that of the next subscribers.
    """
    sizes = draft.sizes
    level = sizes[by_load[0]]
    end = 0
    while True:
        while end < len(by_load) and sizes[by_load[end]] == level:
            end += 1
        for member in by_load[:end]:
            yield member, level
        level += 1


def _most_loaded(draft: _Draft, by_load: list[int], held: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the subscriber that gives up the next partition, and its load until then. Skips subscribers without a partition of the
    topic."""
    sizes = draft.sizes
    givers: list[int] = []
    start = len(by_load)
    level = 0
    while givers or start:
        level = level - 1 if givers else sizes[by_load[start - 1]]
        end = start
        while start and sizes[by_load[start - 1]] == level:
            start -= 1
        givers = by_load[start:end] + givers
        for position in range(len(givers) - 1, -1, -1):
            giver = givers[position]
            if held.get(giver):
                yield giver, level
            else:
                # The subscriber has no partition of the topic left. Replace it by the list's last subscriber, which the loop has
                # already visited.
                givers[position] = givers[-1]
                givers.pop()
