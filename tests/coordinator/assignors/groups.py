"""Groups for tests of assignors: random groups from hypothesis, large groups, and functions that measure assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from ottla.coordinator.group.assignors.members import Assignment, Assignor, AssignorMember


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


@dataclass(frozen=True)
class Group:
    members: dict[str, AssignorMember]
    partition_counts: dict[bytes, int]

    def assigned_by(self, assignor: Assignor) -> dict[str, Assignment]:
        return assignor(self.members, self.partition_counts)

    def after(self, assignor: Assignor) -> Group:
        """Return the group after its members have adopted their target assignment."""
        assignments = self.assigned_by(assignor)
        return self.changed(lambda member_id, member: with_assigned(member, assignments[member_id]))

    def changed(self, change: Callable[[str, AssignorMember], AssignorMember]) -> Group:
        return Group({member_id: change(member_id, member) for member_id, member in self.members.items()}, self.partition_counts)


def with_assigned(member: AssignorMember, assigned: Assignment) -> AssignorMember:
    return AssignorMember(subscribed=member.subscribed, assigned=assigned, instance_id=member.instance_id, rack_id=member.rack_id)


def partitions_of(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def sizes(assignments: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: len(partitions_of(assignment)) for member_id, assignment in assignments.items()}


def moved(group: Group, assignments: Mapping[str, Assignment]) -> set[tuple[bytes, int]]:
    """Return the partitions that an assignment takes away from their previous members."""
    return {
        partition
        for member_id, member in group.members.items()
        for partition in partitions_of(member.assigned) - partitions_of(assignments[member_id])
    }


@st.composite
def groups(
    draw: st.DrawFn, *, equal_subscriptions: bool | None = None, max_members: int = 8, max_topics: int = 5, max_partitions: int = 12
) -> Group:
    """Draw a random group. Its members have previous assignments, which may include topics to which they no longer subscribe.

    With ``equal_subscriptions`` None, the members of a group may have equal or different subscriptions.
    """
    topics = [topic_id(number) for number in range(1, draw(st.integers(1, max_topics)) + 1)]
    counts = {topic: draw(st.integers(1, max_partitions)) for topic in topics}
    member_ids = draw(
        st.lists(st.text("abcdeé\uff00\U0001f600", min_size=1, max_size=3), min_size=1, max_size=max_members, unique=True)
    )
    subscriptions = st.frozensets(st.sampled_from(topics))
    same = draw(subscriptions) if (draw(st.booleans()) if equal_subscriptions is None else equal_subscriptions) else None
    owners = {
        (topic, partition): draw(st.sampled_from([None, *member_ids]))
        for topic, count in counts.items()
        for partition in range(count)
    }
    members = {}
    for member_id in member_ids:
        assigned: dict[bytes, set[int]] = {}
        for (topic, partition), owner in owners.items():
            if owner == member_id:
                assigned.setdefault(topic, set()).add(partition)
        members[member_id] = AssignorMember(
            subscribed=draw(subscriptions) if same is None else same,
            assigned={topic: frozenset(partitions) for topic, partitions in assigned.items()},
            instance_id=draw(st.none() | st.just(f"static {member_id}")),
        )
    return Group(members, counts)


def large_group(*, members: int, topics: int, partitions: int, equal_subscriptions: bool = True) -> Group:
    """Return a group with these numbers of members and partitions. Without ``equal_subscriptions``, each member subscribes to all
    topics except one."""
    ids = [topic_id(number) for number in range(1, topics + 1)]
    subscribed = frozenset(ids)
    return Group(
        {
            f"member-{number:05}": AssignorMember(
                subscribed=subscribed if equal_subscriptions else subscribed - {ids[number % topics]}
            )
            for number in range(members)
        },
        dict.fromkeys(ids, partitions // topics),
    )
