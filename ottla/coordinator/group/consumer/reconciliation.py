"""How one member goes from what it has to what it is to have (CurrentAssignmentBuilder of Kafka): revocation before assignment.

A partition is given to a member only when nobody else has it any more. A member that has to give partitions up stays at its epoch
until it says that it owns them no longer; only then does it reach the epoch of its target assignment.

| state now | what the heartbeat brings | what follows |
|---|---|---|
| STABLE | it is at the target's epoch | nothing, but for topics that it has just unsubscribed from, which it gives up |
| STABLE | it is at another epoch | the next assignment |
| UNREVOKED_PARTITIONS | it owns, or does not say whether it owns, what it is to give up | nothing, but for topics as above |
| UNREVOKED_PARTITIONS | it owns none of that | the next assignment |
| UNRELEASED_PARTITIONS | anything | the next assignment |
| UNKNOWN (a record of a newer broker) | it owns nothing | the next assignment |
| UNKNOWN | anything else | FENCED_MEMBER_EPOCH |

The next assignment is UNREVOKED_PARTITIONS at the old epoch where there is something to give up, else UNRELEASED_PARTITIONS at the
target's epoch where something of the target is with others, else STABLE at the target's epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.member import ConsumerGroupMember, ConsumerMemberState, HeldPartitions
from ottla.protocol.errors import Code, KafkaError

Owned = Mapping[bytes, frozenset[int]]
IsTaken = Callable[[bytes, int], bool]
"""Whether some member holds a partition, also one that it is about to give up."""


class Target(msgspec.Struct, frozen=True):
    """What a member is to have, and the epoch of the target assignment that says so."""

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
    """The member after a heartbeat in which it has named the partitions ``owned``; None where it named none.

    ``subscribed`` are the ids of the topics that it subscribes to. Raises FENCED_MEMBER_EPOCH.
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
    """Whether a member still owns any of these; one that does not say so may."""
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
    """The member gives up topics that it subscribes to no longer before a target assignment says so."""
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
    """A member whose answer gets lost comes again with the epoch of before; that is ``previous_epoch``."""
    return msgspec.structs.replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        assigned=assigned,
        revoking=revoking,
    )
