"""How a member gets from its current assignment to its target (CurrentAssignmentBuilder of Kafka): revocation comes first.

A member gets a partition only when no other member holds the partition. A member that must give partitions up stays at its epoch
until it confirms that it no longer owns them; only then does it reach the epoch of its target assignment.

| state now | condition at the heartbeat | result |
|---|---|---|
| STABLE | the member is at the target's epoch | unchanged, except that the member gives up topics that it has just unsubscribed
from |
| STABLE | the member is at another epoch | the next assignment |
| UNREVOKED_PARTITIONS | the member owns partitions to give up, or does not say | unchanged, except for topics as above |
| UNREVOKED_PARTITIONS | the member owns none of these | the next assignment |
| UNRELEASED_PARTITIONS | any | the next assignment |
| UNKNOWN (a record of a newer broker) | the member owns nothing | the next assignment |
| UNKNOWN | anything else | FENCED_MEMBER_EPOCH |

The next assignment is UNREVOKED_PARTITIONS at the old epoch where the member has partitions to give up. Else it is
UNRELEASED_PARTITIONS at the target's epoch where other members hold partitions of the target, and else STABLE at the target's
epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.member import ConsumerGroupMember, ConsumerMemberState, HeldPartitions
from ottla.protocol.errors import Code, KafkaError

Owned = Mapping[bytes, frozenset[int]]
IsTaken = Callable[[bytes, int], bool]
"""Whether a member holds the partition, which includes partitions that the member has to give up."""


class Target(msgspec.Struct, frozen=True):
    """The target assignment of a member, and its epoch."""

    epoch: int
    assignment: Assignment


def reconciled(
    member: ConsumerGroupMember,
    target: Target,
    subscribed: Collection[bytes],
    is_taken: IsTaken,
    owned: Owned | None,
    *,
    has_new_subscription: bool,
) -> ConsumerGroupMember:
    """The member after a heartbeat in which it named ``owned`` as its partitions; None where it named none.

    ``subscribed`` are the ids of the topics to which the member subscribes. Raises FENCED_MEMBER_EPOCH.
    """
    state = member.state
    if state is ConsumerMemberState.STABLE and member.member_epoch == target.epoch:
        return _without_unsubscribed(member, subscribed, owned) if has_new_subscription else member
    if state is ConsumerMemberState.UNREVOKED_PARTITIONS and _owns_any(member.revoking, owned):
        return _without_unsubscribed(member, subscribed, owned) if has_new_subscription else member
    if state is ConsumerMemberState.UNKNOWN:
        if owned is None or owned:
            message = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
            raise KafkaError(Code.FENCED_MEMBER_EPOCH, message)
        member = msgspec.structs.replace(member, member_epoch=target.epoch)
    return _next(member, target, subscribed, is_taken, owned)


def _owns_any(revoking: HeldPartitions, owned: Owned | None) -> bool:
    """Whether a member may still own any of ``revoking``. Where ``owned`` is None, the member may."""
    if owned is None:
        return True
    return any(not owned.get(topic, frozenset()).isdisjoint(partitions) for topic, partitions in revoking.items())


def _next(
    member: ConsumerGroupMember, target: Target, subscribed: Collection[bytes], is_taken: IsTaken, owned: Owned | None
) -> ConsumerGroupMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    has_unreleased = False
    for topic, partitions in member.assigned.items():
        wanted = target.assignment.get(topic, frozenset()) if topic in subscribed else frozenset()
        staying = {p: epoch for p, epoch in partitions.items() if p in wanted}
        if staying:
            kept[topic] = staying
        if len(staying) < len(partitions):
            revoking[topic] = {p: epoch for p, epoch in partitions.items() if p not in wanted}
    if revoking and _owns_any(revoking, owned):
        return _changed(member, ConsumerMemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoking)
    assigned: dict[bytes, dict[int, int]] = {}
    for topic, wanted in target.assignment.items():
        if topic not in subscribed:
            continue
        has, own = member.assigned.get(topic, {}), member.revoking.get(topic, {})
        for partition in wanted:
            if partition in has:
                continue
            if partition not in own and is_taken(topic, partition):
                has_unreleased = True
            else:
                assigned.setdefault(topic, dict(kept.get(topic, {})))[partition] = target.epoch
    state = ConsumerMemberState.UNRELEASED_PARTITIONS if has_unreleased else ConsumerMemberState.STABLE
    return _changed(member, state, target.epoch, {**kept, **assigned}, {})


def _without_unsubscribed(member: ConsumerGroupMember, subscribed: Collection[bytes], owned: Owned | None) -> ConsumerGroupMember:
    """Take topics from which the member has unsubscribed out of its assignment, before a target assignment does so."""
    gone = {topic: partitions for topic, partitions in member.assigned.items() if topic not in subscribed}
    if not gone:
        return member
    kept = {topic: partitions for topic, partitions in member.assigned.items() if topic not in gone}
    revoking = {topic: dict(partitions) for topic, partitions in member.revoking.items()}
    for topic, partitions in gone.items():
        revoking.setdefault(topic, {}).update(partitions)
    if _owns_any(revoking, owned):
        return _changed(member, ConsumerMemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoking)
    return _changed(member, member.state, member.member_epoch, kept, member.revoking)


def _changed(
    member: ConsumerGroupMember, state: ConsumerMemberState, epoch: int, assigned: HeldPartitions, revoking: HeldPartitions
) -> ConsumerGroupMember:
    """The member with a new assignment. Keeps the old epoch as ``previous_epoch``: a member whose response is lost sends it
    again."""
    return msgspec.structs.replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        assigned=assigned,
        revoking=revoking,
    )
