"""Computes the target assignment of all members of a consumer group (TargetAssignmentBuilder of Kafka)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.group.assignors.members import Assignment, Assignor, AssignorMember
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.group.topics import GroupTopics, subscribed_ids


def assign(
    assignor: Assignor,
    members: Mapping[str, ConsumerGroupMember],
    targets: Mapping[str, Assignment],
    regexes: Mapping[str, frozenset[str]],
    topics: GroupTopics,
) -> dict[str, Assignment]:
    """Return the next target of each member, by member id. ``targets`` are the previous ones."""
    ids_by_names: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    specs: dict[str, AssignorMember] = {}
    for member_id, member in members.items():
        names = member.topics(regexes)
        ids = ids_by_names.get(names)
        if ids is None:
            ids = ids_by_names[names] = subscribed_ids(names, topics)
            for topic_id in ids:
                name = topics.topic_name(topic_id)
                counts[topic_id] = 0 if name is None else topics.partition_count(name)
        specs[member_id] = AssignorMember(
            subscribed=ids, assigned=targets.get(member_id, {}), instance_id=member.instance_id, rack_id=member.rack_id
        )
    return assignor(specs, counts)
