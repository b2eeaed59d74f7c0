"""What all members of a group together are to have, and what of the cluster's metadata that was computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from ottla.coordinator.group.assignors.members import Assignment, Assignor, AssignorMember
from ottla.coordinator.group.consumer.member import Member
from ottla.coordinator.group.topics import Topics


def metadata_hash(subscribed: Iterable[str], topics: Topics) -> int:
    """One number for the topics that the members subscribe to, as they are now; 0 without any.

    Kafka has another function for the same: a group that changes over between the two rebalances once.
    """
    digest, is_empty = blake2b(digest_size=8), True
    for name in sorted(subscribed):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            is_empty = False
            digest.update(topic_id + topics.partition_count(name).to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def subscribed_ids(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    """Topics that do not exist are left out."""
    return frozenset(topic_id for topic_id in map(topics.topic_id, names) if topic_id is not None)


def assign(
    assignor: Assignor,
    members: Mapping[str, Member],
    targets: Mapping[str, Assignment],
    regexes: Mapping[str, frozenset[str]],
    topics: Topics,
) -> dict[str, Assignment]:
    """The next target of every member; ``targets`` are those of before."""
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
