"""The assignor "simple" of share groups: every partition is assigned, members are balanced, and assignments are stable."""

from __future__ import annotations

import random
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember
from ottla.coordinator.group.assignors.simple import assign_simply
from tests.coordinator.assignors.groups import Group, groups, partitions_of, sizes, topic_id
from tests.coordinator.assignors.kafkas_assignors import made_up

ONE, TWO = topic_id(1), topic_id(2)


@st.composite
def share_groups(draw: st.DrawFn) -> Group:
    """Draw a random share group, in which several members may have the same partition assigned."""
    if draw(st.booleans()):
        return draw(groups())
    rng = draw(st.randoms(use_true_random=False))
    topics = [topic_id(number) for number in range(1, rng.randint(1, 4) + 1)]
    sizes = {"max_members": 12, "max_partitions": 8, "most_owners": 5}
    return made_up(random.Random(rng.randrange(10**9)), topics, equal_subscriptions=rng.random() < 0.5, **sizes)


def members_of(assignments: dict[str, Assignment]) -> dict[tuple[bytes, int], set[str]]:
    members: dict[tuple[bytes, int], set[str]] = {}
    for member_id, assignment in assignments.items():
        for partition in partitions_of(assignment):
            members.setdefault(partition, set()).add(member_id)
    return members


@given(group=share_groups())
def test_share_assignor_assigns_each_partition_to_a_bounded_number_of_members(group: Group) -> None:
    assignments = group.assigned_by(assign_simply)
    assert assignments.keys() == group.members.keys()
    subscribers: dict[bytes, set[str]] = {}
    for member_id, member in group.members.items():
        assert assignments[member_id].keys() <= member.subscribed
        for topic in member.subscribed:
            subscribers.setdefault(topic, set()).add(member_id)
    have_equal_subscriptions = len({member.subscribed for member in group.members.values()}) == 1
    partition_count = sum(group.partition_counts[topic] for topic in subscribers)
    members = members_of(assignments)
    assert members.keys() == {(topic, number) for topic in subscribers for number in range(group.partition_counts[topic])}
    for (topic, _), member_ids in members.items():
        count = partition_count if have_equal_subscriptions else group.partition_counts[topic]
        assert len(member_ids) <= ceil(len(subscribers[topic]) / count)


@pytest.mark.smoke
@given(group=groups(equal_subscriptions=True))
def test_share_assignor_balances_members_when_partitions_suffice(group: Group) -> None:
    subscribed = next(iter(group.members.values())).subscribed
    counts = sizes(group.assigned_by(assign_simply)).values()
    if sum(group.partition_counts[topic] for topic in subscribed) >= len(group.members):
        assert max(counts) - min(counts) <= 1


@pytest.mark.smoke
@given(group=share_groups())
def test_repeated_assignment_of_an_unchanged_share_group_moves_no_partition(group: Group) -> None:
    settled = group.after(assign_simply)
    assert settled.assigned_by(assign_simply) == group.assigned_by(assign_simply)


def test_share_assignor_assigns_only_assignable_partitions() -> None:
    members = {name: AssignorMember(subscribed=frozenset({ONE, TWO}), assigned={ONE: frozenset({0, 1})}) for name in "ab"}
    assert assign_simply(members, {ONE: 4, TWO: 2}, {ONE: frozenset({1, 3, 9})}) == {"a": {ONE: {3}}, "b": {ONE: {1}}}


def test_share_assignments_are_empty_without_assignable_partitions() -> None:
    for subscription_of_b in ({ONE}, {ONE, TWO}):
        members = {
            "a": AssignorMember(subscribed=frozenset({ONE}), assigned={ONE: frozenset({0})}),
            "b": AssignorMember(subscribed=frozenset(subscription_of_b)),
        }
        assert assign_simply(members, {ONE: 4, TWO: 2}, {}) == {"a": {}, "b": {}}


def test_share_assignor_revokes_partitions_of_unsubscribed_topics() -> None:
    members = {
        "a": AssignorMember(subscribed=frozenset({ONE}), assigned={TWO: frozenset({0, 1})}),
        "b": AssignorMember(subscribed=frozenset()),
    }
    assert assign_simply(members, {ONE: 1, TWO: 2}) == {"a": {ONE: {0}}, "b": {}}


def test_share_assignor_assigns_nothing_to_a_group_without_members() -> None:
    assert assign_simply({}, {}) == {}
    assert assign_simply({"a": AssignorMember(subscribed=frozenset())}, {}) == {"a": {}}


def test_share_assignor_raises_for_a_topic_without_partition_count() -> None:
    with pytest.raises(KeyError):
        assign_simply({"a": AssignorMember(subscribed=frozenset({ONE}))}, {})
