"""The effect of a member's join or heartbeat on its group and its assignment (GroupMetadataManager of Kafka).

The group's epoch rises if the member's subscription or the topics have changed. Then a target assignment of that epoch is computed,
once for all members, and the member makes the next step to its target. The member may use either protocol.

Functions in this module change nothing: they return the records of the changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.group.consumer.reconciliation import Owned, Target, reconciled
from ottla.coordinator.group.consumer.records import RECORDS, current_record, epoch_record
from ottla.coordinator.group.consumer.regexes import Resolved, resolve
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig
from ottla.coordinator.group.modern.effects import TopicsRead
from ottla.coordinator.group.modern.group import with_member
from ottla.coordinator.group.modern.target import assignor_input, may_assign
from ottla.coordinator.group.subscriptions import Expansions
from ottla.coordinator.group.topics import GroupTopics, metadata_hash, subscribed_ids
from ottla.coordinator.result import Result

Out = Result[Any]


class Cycle(NamedTuple):
    """One request of a member, which changes the member from ``before`` to ``member``. ``owned`` are the partitions that the
    request lists, or None."""

    group: ConsumerGroup
    before: ConsumerGroupMember
    member: ConsumerGroupMember
    owned: Owned | None
    config: ConsumerGroupConfig
    topics: GroupTopics
    now_ms: int


class Epoch(NamedTuple):
    """The group's epoch, and the input of the target assignment of that epoch."""

    epoch: int
    regexes: Resolved
    assignor: str
    has_new_subscription: bool


def regrouped(cycle: Cycle, expansions: Expansions, out: Out) -> ConsumerGroupMember:
    """Return the member after the request's effect on group and assignment. ``out`` already has the records that change
    ``cycle.before`` to ``cycle.member``."""
    group, member = cycle.group, cycle.member
    if out.records or group.is_stale or group.group_epoch > group.assignment_epoch:
        return stepped_to_epoch(cycle, next_epoch(cycle, expansions, out), out)
    if member.is_reconciled_to(group.assignment_epoch):
        return member
    return stepped(cycle, Target(group.assignment_epoch, group.target_of(member)), group.regexes, False, out)


def next_epoch(cycle: Cycle, expansions: Expansions, out: Out) -> Epoch:
    group, before, member = cycle.group, cycle.before, cycle.member
    default = cycle.config.default_assignor
    regexes, regex_records, is_current = resolve(group, before, member, expansions, cycle.now_ms)
    out.records += regex_records
    is_stale = group.is_stale and is_current
    has_new_subscription = member.topics(regexes) != before.topics(group.regexes)
    # A member that changes to the classic protocol loses its regular expression. Count that as a new subscription, even if the
    # expression matched no topic.
    has_new_subscription |= member.classic is not None and member.topic_regex != before.topic_regex
    preferred = group.preferred_assignor(before, member) or default
    changes = has_new_subscription or preferred != (group.preferred_assignor() or default)
    epoch = group.group_epoch
    if changes or is_stale:
        current_hash = metadata_hash(group.topics_with(before, member, regexes), cycle.topics)
        if changes or current_hash != group.metadata_hash:
            epoch += 1
            out.records.append(epoch_record(group.group_id, epoch, current_hash))
        if is_current:
            out.effects.append(TopicsRead(group.group_id))
    return Epoch(epoch=epoch, regexes=regexes, assignor=preferred, has_new_subscription=has_new_subscription)


def stepped_to_epoch(cycle: Cycle, group_now: Epoch, out: Out) -> ConsumerGroupMember:
    """Return the member after one step towards its target assignment. A new target assignment is computed first, unless it is too
    early for that."""
    group, member = cycle.group, cycle.member
    target = Target(group.assignment_epoch, group.target_of(member))
    is_old = may_assign(group.assigned_ms, cycle.config.assignment_interval_ms, cycle.now_ms)
    if group_now.epoch > group.assignment_epoch and is_old:
        target = Target(group_now.epoch, _assigned(cycle, group_now, out))
    if group_now.has_new_subscription or not member.is_reconciled_to(target.epoch):
        return stepped(cycle, target, group_now.regexes, group_now.has_new_subscription, out)
    return member


def _assigned(cycle: Cycle, group_now: Epoch, out: Out) -> Assignment:
    group, member = cycle.group, cycle.member
    members, targets = with_member(group, group.targets, member)
    specs, counts = assignor_input(members, targets, lambda one: one.topics(group_now.regexes), cycle.topics)
    assigned = cycle.config.assignors[group_now.assignor](specs, counts)
    for member_id in members:
        if assigned.get(member_id, {}) != targets.get(member_id):
            out.records.append(RECORDS.target_record(group.group_id, member_id, assigned.get(member_id, {})))
    out.records.append(RECORDS.target_epoch_record(group.group_id, group_now.epoch, cycle.now_ms))
    return assigned.get(member.member_id, {})


def stepped(cycle: Cycle, target: Target, regexes: Resolved, has_new_subscription: bool, out: Out) -> ConsumerGroupMember:
    """Return the member after one step to its target."""
    group, member = cycle.group, cycle.member
    subscribed = subscribed_ids(member.topics(regexes), cycle.topics)
    changed = reconciled(member, target, subscribed, group.is_taken, cycle.owned, has_new_subscription=has_new_subscription)
    if changed != member:
        out.records.append(current_record(group.group_id, changed))
    return changed
