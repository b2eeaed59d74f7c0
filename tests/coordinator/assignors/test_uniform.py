"""The assignor "uniform": assignments are balanced, with the fewest moved partitions for that balance."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember
from ottla.coordinator.group.assignors.uniform import assign_uniformly
from tests.coordinator.assignors.groups import Group, groups, moved, partitions_of, sizes, topic_id

pytestmark = pytest.mark.heavy

ONE, TWO, THREE = topic_id(1), topic_id(2), topic_id(3)


def kept_at_most(group: Group) -> int:
    """Return the maximum number of partitions that can stay with their members in a balanced assignment."""
    subscribed = next(iter(group.members.values())).subscribed
    least, extras = divmod(sum(group.partition_counts[topic] for topic in subscribed), len(group.members))
    counts = [sum(topic in subscribed for topic, _ in partitions_of(member.assigned)) for member in group.members.values()]
    return sum(min(count, least) for count in counts) + min(extras, sum(count > least for count in counts))


@given(group=groups(equal_subscriptions=True))
def test_uniform_assignor_balances_equal_subscriptions_with_the_fewest_moves(group: Group) -> None:
    assignments = group.assigned_by(assign_uniformly)
    counts = sizes(assignments).values()
    assert max(counts) - min(counts) <= 1
    before = {member_id: partitions_of(member.assigned) for member_id, member in group.members.items()}
    kept = sum(len(partitions_of(assignment) & before[member_id]) for member_id, assignment in assignments.items())
    assert kept == kept_at_most(group)


@given(group=groups(equal_subscriptions=True), data=st.data())
def test_uniform_assignor_moves_only_partitions_of_the_leaving_member(group: Group, data: st.DataObject) -> None:
    settled = group.after(assign_uniformly)
    leaver = data.draw(st.sampled_from(list(settled.members)))
    left = Group({m: member for m, member in settled.members.items() if m != leaver}, settled.partition_counts)
    assert moved(left, left.assigned_by(assign_uniformly)) == set()


@given(group=groups(equal_subscriptions=True))
def test_uniform_assignor_moves_partitions_only_to_the_joining_member(group: Group) -> None:
    settled = group.after(assign_uniformly)
    newcomer = AssignorMember(subscribed=next(iter(group.members.values())).subscribed)
    joined = Group({**settled.members, "newcomer": newcomer}, settled.partition_counts)
    assignments = joined.assigned_by(assign_uniformly)
    assert moved(settled, assignments) == partitions_of(assignments["newcomer"])


@given(group=groups(equal_subscriptions=True))
def test_uniform_assignor_moves_the_fewest_partitions_when_a_topic_is_unsubscribed(group: Group) -> None:
    settled = group.after(assign_uniformly)
    subscribed = next(iter(group.members.values())).subscribed
    assume(subscribed)
    rest = subscribed - {min(subscribed)}
    dropped = settled.changed(lambda _, member: AssignorMember(subscribed=rest, assigned=member.assigned))
    assert kept_at_most(dropped) == sum(
        len(partitions_of(assignment) & partitions_of(dropped.members[member_id].assigned))
        for member_id, assignment in dropped.assigned_by(assign_uniformly).items()
    )


@given(group=groups(equal_subscriptions=False))
def test_no_single_move_improves_the_balance_of_a_uniform_assignment(group: Group) -> None:
    """A member with partitions of a topic has at most one partition more than any other subscriber of that topic."""
    assignments = group.assigned_by(assign_uniformly)
    counts = sizes(assignments)
    for member_id, assignment in assignments.items():
        for topic in assignment:
            subscribers = [m for m, member in group.members.items() if topic in member.subscribed]
            assert counts[member_id] - min(counts[m] for m in subscribers) <= 1


@st.composite
def classes(draw: st.DrawFn) -> Group:
    """Draw a random group in which any two subscriptions are equal or disjoint."""
    group = draw(groups(equal_subscriptions=False, max_members=10))
    topics = sorted(group.partition_counts)
    border = draw(st.integers(1, max(1, len(topics) - 1)))
    parts = [frozenset(topics[:border]), frozenset(topics[border:] or topics)]
    return group.changed(lambda m, member: AssignorMember(subscribed=parts[ord(m[0]) % 2], assigned=member.assigned))


def class_counts(group: Group, assignments: dict[str, Assignment]) -> list[list[int]]:
    by_subscription: dict[frozenset[bytes], list[int]] = {}
    for member_id, size in sizes(assignments).items():
        by_subscription.setdefault(group.members[member_id].subscribed, []).append(size)
    return list(by_subscription.values())


@given(group=classes(), data=st.data())
def test_uniform_assignor_balances_equal_subscribers_next_to_members_with_other_topics(group: Group, data: st.DataObject) -> None:
    assume(not frozenset.intersection(*{member.subscribed for member in group.members.values()}) or len(group.members) == 1)
    settled = group.after(assign_uniformly)
    for counts in class_counts(group, group.assigned_by(assign_uniformly)):
        assert max(counts) - min(counts) <= 1
    leaver = data.draw(st.sampled_from(list(settled.members)))
    left = Group({m: member for m, member in settled.members.items() if m != leaver}, settled.partition_counts)
    assert moved(left, left.assigned_by(assign_uniformly)) == set()


def test_uniform_assignor_balances_overlapping_subscriptions_topic_by_topic() -> None:
    """Moving partitions from member a to b, and from b to c, would balance the members better. Kafka moves none, because each topic
    is balanced."""
    members = {
        "a": AssignorMember(subscribed=frozenset({ONE}), assigned={ONE: frozenset(range(9))}),
        "b": AssignorMember(subscribed=frozenset({ONE, TWO}), assigned={ONE: frozenset(range(9, 19))}),
        "c": AssignorMember(subscribed=frozenset({TWO}), assigned={TWO: frozenset(range(11))}),
    }
    assignments = assign_uniformly(members, {ONE: 19, TWO: 11})
    assert sizes(assignments) == {"a": 9, "b": 10, "c": 11}
    assert moved(Group(members, {}), assignments) == set()


def test_uniform_assignor_gives_one_owner_to_a_partition_that_had_two() -> None:
    """In a group from the classic protocol, clients compute the assignment and may assign a partition twice."""
    both = {ONE: frozenset({0, 1, 7})}
    for subscription_of_b in ({ONE}, {ONE, TWO}):
        members = {
            "a": AssignorMember(subscribed=frozenset({ONE}), assigned=both),
            "b": AssignorMember(subscribed=frozenset(subscription_of_b), assigned=both),
        }
        assignments = assign_uniformly(members, {ONE: 2, TWO: 1})
        assert sorted(sizes(assignments).values()) == ([1, 1] if len(subscription_of_b) == 1 else [1, 2])
        assert partitions_of(assignments["a"]).isdisjoint(partitions_of(assignments["b"]))


def test_uniform_assignor_sorts_topics_in_kafkas_uuid_order() -> None:
    """Kafka compares the two halves of a UUID as signed integers, so an id with its first bit set sorts first."""
    negative = b"\xff" * 16
    members = {name: AssignorMember(subscribed=frozenset({ONE, negative})) for name in "ab"}
    assert assign_uniformly(members, {ONE: 1, negative: 1}) == {"a": {negative: {0}}, "b": {ONE: {0}}}
