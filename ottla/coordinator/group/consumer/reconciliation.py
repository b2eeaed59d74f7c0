"""Moves a member from its current assignment to its target (CurrentAssignmentBuilder of Kafka).

A member gets a partition only when no other member holds it. A member that must give up partitions stays at its epoch until it
confirms that it no longer owns them; only then does it reach the epoch of its target assignment.

| current state | condition at the heartbeat | result |
|---|---|---|
| STABLE | the member is at the target's epoch | unchanged, except that the member gives up newly unsubscribed topics |
| STABLE | the member is at another epoch | the next assignment |
| UNREVOKED_PARTITIONS | the member owns partitions to give up, or does not list them | unchanged, except as in the first row |
| UNREVOKED_PARTITIONS | the member owns no partitions to give up | the next assignment |
| UNRELEASED_PARTITIONS | any | the next assignment |
| UNKNOWN (a record of a newer broker) | the member owns nothing | the next assignment |
| UNKNOWN | anything else | FENCED_MEMBER_EPOCH |

The next assignment is UNREVOKED_PARTITIONS at the old epoch if the member has partitions to give up. Otherwise it has the target's
epoch and is UNRELEASED_PARTITIONS if other members hold partitions of the target, else STABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.member import ConsumerGroupMember, ConsumerMemberState, HeldPartitions
from ottla.protocol.errors import Code, KafkaError

Owned = Mapping[bytes, frozenset[int]]
IsTaken = Callable[[bytes, int], bool]
"""A function that returns whether a member holds a partition, even if the member must give it up."""


class Target(msgspec.Struct, frozen=True):
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
    """Return the member after a heartbeat that listed ``owned`` as its partitions, None if it listed none.

    ``subscribed`` are the ids of the member's subscribed topics. Raises FENCED_MEMBER_EPOCH.
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
    """Whether a member may still own any of ``revoking``. True if the member did not list its partitions."""
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
    """Remove unsubscribed topics from the member's assignment, without waiting for a new target assignment."""
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
    """Return the member with a new assignment. Its old epoch stays valid for a repeated heartbeat."""
    return msgspec.structs.replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        assigned=assigned,
        revoking=revoking,
    )
