"""Properties that every assignor of consumer groups must have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.assignors.members import Assignor, AssignorMember
from ottla.coordinator.group.assignors.named import ASSIGNORS
from tests.coordinator.assignors.groups import Group, groups, partitions_of, topic_id

pytestmark = [pytest.mark.heavy, pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)]


@given(group=groups())
def test_assignor_assigns_every_partition_to_exactly_one_subscriber(assignor: Assignor, group: Group) -> None:
    assignments = group.assigned_by(assignor)
    assert assignments.keys() == group.members.keys()
    subscribed = {topic for member in group.members.values() for topic in member.subscribed}
    expected = [(topic, partition) for topic in subscribed for partition in range(group.partition_counts[topic])]
    assigned = [partition for assignment in assignments.values() for partition in partitions_of(assignment)]
    assert sorted(assigned) == sorted(expected)
    for member_id, assignment in assignments.items():
        assert assignment.keys() <= group.members[member_id].subscribed
        assert all(assignment.values()), "topics without partitions are omitted"


@given(group=groups(), data=st.data())
def test_partition_assignment_does_not_depend_on_member_order(assignor: Assignor, group: Group, data: st.DataObject) -> None:
    shuffled = Group({m: group.members[m] for m in data.draw(st.permutations(list(group.members)))}, group.partition_counts)
    assert shuffled.assigned_by(assignor) == group.assigned_by(assignor)


@given(group=groups())
def test_repeated_assignment_of_an_unchanged_consumer_group_moves_no_partition(assignor: Assignor, group: Group) -> None:
    settled = group.after(assignor)
    assert settled.assigned_by(assignor) == group.assigned_by(assignor)


def test_assignor_assigns_nothing_without_members_or_topics(assignor: Assignor) -> None:
    assert assignor({}, {}) == {}
    assert assignor({"a": AssignorMember(subscribed=frozenset())}, {}) == {"a": {}}


def test_assignor_raises_key_error_for_a_topic_without_partition_count(assignor: Assignor) -> None:
    subscribed = AssignorMember(subscribed=frozenset({topic_id(1)}))
    with pytest.raises(KeyError):
        assignor({"a": subscribed}, {})
    with pytest.raises(KeyError):
        assignor({"a": subscribed, "b": AssignorMember(subscribed=frozenset())}, {})


def test_partition_assignment_does_not_depend_on_pythonhashseed(assignor: Assignor) -> None:
    """The iteration order of a set of topic ids differs between processes unless PYTHONHASHSEED is set."""
    name = next(name for name, each in ASSIGNORS.items() if each is assignor)
    program = (
        "from tests.coordinator.assignors.groups import large_group\n"
        "from ottla.coordinator.group.assignors.named import ASSIGNORS\n"
        "for equal in True, False:\n"
        "    group = large_group(members=7, topics=5, partitions=40, equal_subscriptions=equal)\n"
        f"    assignments = group.assigned_by(ASSIGNORS[{name!r}])\n"
        "    print([(m, sorted((t, sorted(p)) for t, p in a.items())) for m, a in assignments.items()])\n"
    )
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    answers = {subprocess.run([sys.executable, "-c", program], env=e, capture_output=True, check=True).stdout for e in environments}
    assert len(answers) == 1
