"""When a target assignment may be computed, and the input of an assignor (TargetAssignmentBuilder of Kafka)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember
from ottla.coordinator.group.topics import GroupTopics, subscribed_ids


def may_assign(assigned_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether a target assignment may be computed now. Members that join within one interval share the next target assignment.

    ``interval_ms`` is ``group.consumer.assignment.interval.ms``, or the same config of streams or share groups. ``assigned_ms`` is
    the time of the last target assignment, 0 if there is none. A time in the future counts as old enough: it was logged before a
    restart, and the wall clock was set back since then.
    """
    return not assigned_ms or not assigned_ms <= now_ms < assigned_ms + interval_ms


def assignor_input(
    members: Mapping[str, Any],
    targets: Mapping[str, Assignment],
    names_of: Callable[[Any], frozenset[str]],
    topics: GroupTopics,
) -> tuple[dict[str, AssignorMember], dict[bytes, int]]:
    """Return the members of a consumer or share group as an assignor needs them, and the partition counts of their topics.

    ``targets`` are the previous targets.
    """
    ids_by_names: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    specs: dict[str, AssignorMember] = {}
    for member_id, member in members.items():
        names = names_of(member)
        ids = ids_by_names.get(names)
        if ids is None:
            ids = ids_by_names[names] = subscribed_ids(names, topics)
            for topic_id in ids:
                name = topics.topic_name(topic_id)
                counts[topic_id] = 0 if name is None else topics.partition_count(name)
        specs[member_id] = AssignorMember(
            subscribed=ids, assigned=targets.get(member_id, {}), instance_id=member.instance_id, rack_id=member.rack_id
        )
    return specs, counts
