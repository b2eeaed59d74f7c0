"""The assignor "range": contiguous partitions per member, co-partitioned topics, and static members first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.assignors.members import AssignorMember
from ottla.coordinator.group.assignors.range import assign_ranges
from tests.coordinator.assignors.groups import Group, groups, topic_id

ONE, TWO = topic_id(1), topic_id(2)


@pytest.mark.smoke
@given(group=groups())
def test_range_assignor_gives_contiguous_ranges_whose_sizes_differ_by_at_most_one(group: Group) -> None:
    assignments = group.assigned_by(assign_ranges)
    for topic, count in group.partition_counts.items():
        subscribers = [member_id for member_id, member in group.members.items() if topic in member.subscribed]
        lengths = []
        for member_id in subscribers:
            partitions = assignments[member_id].get(topic, frozenset())
            lengths.append(len(partitions))
            assert not partitions or partitions == set(range(min(partitions), max(partitions) + 1))
        if subscribers:
            assert sum(lengths) == count
            assert max(lengths) - min(lengths) <= 1


@pytest.mark.smoke
@given(group=groups(equal_subscriptions=True), count=st.integers(1, 20))
def test_range_assignor_co_partitions_topics_with_equal_partition_counts(group: Group, count: int) -> None:
    equal = Group(group.members, dict.fromkeys(group.partition_counts, count))
    for member_id, assignment in equal.assigned_by(assign_ranges).items():
        assert len(set(assignment.values())) <= 1
        assert not assignment or assignment.keys() == group.members[member_id].subscribed


def test_range_assignor_puts_static_members_first_ordered_by_instance_id() -> None:
    subscribed = frozenset({ONE, TWO})
    members = {
        "a": AssignorMember(subscribed=subscribed),
        "x": AssignorMember(subscribed=subscribed, instance_id="2"),
        "z": AssignorMember(subscribed=subscribed, instance_id="1"),
        "b": AssignorMember(subscribed=subscribed),
    }
    assert assign_ranges(members, {ONE: 6, TWO: 2}) == {
        "z": {ONE: {0, 1}, TWO: {0}},
        "x": {ONE: {2, 3}, TWO: {1}},
        "a": {ONE: {4}},
        "b": {ONE: {5}},
    }


def test_range_assignor_gives_a_restarted_static_member_its_old_partitions() -> None:
    def group(member_id: str) -> dict[str, AssignorMember]:
        return {
            "m": AssignorMember(subscribed=frozenset({ONE}), instance_id="1"),
            member_id: AssignorMember(subscribed=frozenset({ONE}), instance_id="2"),
        }

    before, after = assign_ranges(group("a"), {ONE: 5}), assign_ranges(group("z"), {ONE: 5})
    assert before["a"] == after["z"] == {ONE: {3, 4}}


def test_range_assignor_sorts_member_ids_in_java_string_order() -> None:
    """Java compares UTF-16 units. A character beyond U+FFFF begins with a surrogate, which sorts before U+FF00."""
    subscribed = frozenset({ONE})
    members = {"\uff00": AssignorMember(subscribed=subscribed), "\U0001f600": AssignorMember(subscribed=subscribed)}
    assert assign_ranges(members, {ONE: 1}) == {"\U0001f600": {ONE: {0}}, "\uff00": {}}
