"""What a heartbeat brings about (GroupMetadataManager.consumerGroupHeartbeat of Kafka): four questions, in this order.

1. Is it a member, of the right epoch, or may it become one? A static member takes over the place of the one before.
2. Has it changed what it says of itself, or have its topics changed? The group's epoch rises by that.
3. Is there a target assignment of the group's epoch? If not, one is computed, once for all members.
4. Is the member at its target? If not, it goes the next step (`reconciliation`).

Functions here change nothing: they give the records that do. Most heartbeats give none, and cost the same in any group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ottla.coordinator.group.assignors.members import Assignment, Assignor
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
    Partitions,
    is_subset,
)
from ottla.coordinator.group.consumer.reconciliation import Target, reconciled
from ottla.coordinator.group.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from ottla.coordinator.group.consumer.regexes import Resolved, resolve
from ottla.coordinator.group.consumer.requests import (
    MAX_GROUP_TOPICS,
    MAX_TOPIC_NAMES,
    ConsumerGroupConfig,
    Heartbeat,
    HeartbeatAnswer,
)
from ottla.coordinator.group.consumer.target import assign, metadata_hash, subscribed_ids
from ottla.coordinator.group.effects import GroupLookedAtTopics, HeardOfMember
from ottla.coordinator.group.subscriptions import Expansions
from ottla.coordinator.group.topics import Topics
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError

Out = Result[HeartbeatAnswer]


def check_heartbeat(beat: Heartbeat, version: int, assignors: Iterable[str]) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what no group would take."""

    def refuse(message: str) -> KafkaError:
        return KafkaError(Code.INVALID_REQUEST, message)

    epoch = beat.member_epoch
    if len(beat.topic_names or ()) > MAX_TOPIC_NAMES:
        count = len(beat.topic_names or ())
        raise refuse(f"A member subscribes to {count} topics by name, and may subscribe to {MAX_TOPIC_NAMES} at most.")
    if not beat.member_id.strip() and (version >= 1 or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH):
        raise refuse("MemberId can't be empty.")
    for text, name in ((beat.group_id, "GroupId"), (beat.instance_id, "InstanceId"), (beat.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise refuse(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        if beat.rebalance_timeout_ms == -1:
            raise refuse("RebalanceTimeoutMs must be provided in first request.")
        if beat.owned is None or beat.owned:
            raise refuse("TopicPartitions must be empty when (re-)joining.")
        if beat.topic_names is None and beat.topic_regex is None:
            raise refuse("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVE_EPOCH and beat.instance_id is None:
        raise refuse("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise refuse("MemberEpoch is invalid.")
    if beat.assignor is not None and beat.assignor not in assignors:
        message = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        raise KafkaError(Code.UNSUPPORTED_ASSIGNOR, message)


def heartbeat(
    group: ConsumerGroup,
    beat: Heartbeat,
    config: ConsumerGroupConfig,
    topics: Topics,
    now_ms: int,
    expansions: Expansions,
) -> Out:
    """A member goes on, or joins at epoch 0. ``expansions`` are of expressions that are not known yet. Raises `KafkaError`."""
    _check_size(group, beat, config)
    out: Out = Result(HeartbeatAnswer(beat.member_id, 0, config.heartbeat_interval_ms))
    before = _member(group, beat, out)
    member = _with_news(before, beat)
    _check_names(group, before, member)
    if member is not before:
        out.records.append(member_record(group.group_id, member))
    target_epoch = group.assignment_epoch
    if out.records or group.is_stale or group.group_epoch > target_epoch:
        member = _regrouped(group, before, member, beat, config, topics, now_ms, expansions, out)
    elif not member.is_reconciled_to(target_epoch):
        target = Target(target_epoch, group.target_of(member))
        member = _reconciled(group, member, target, beat, subscribed_ids(member.topics(group.regexes), topics), False, out)
    out.effects.append(HeardOfMember(group.group_id, member.member_id, now_ms))
    answer = out.response
    answer.member_epoch = member.member_epoch
    if beat.member_epoch == JOIN_EPOCH or beat.is_full or (member is not before and member.assigned != before.assigned):
        answer.assignment = member.assigned
    return out


# 1. members


def _check_size(group: ConsumerGroup, beat: Heartbeat, config: ConsumerGroupConfig) -> None:
    is_known = beat.member_id in group.members or beat.instance_id in group.static_members
    if len(group.members) >= config.max_size and not is_known:
        message = f"The consumer group has reached its maximum capacity of {config.max_size} members."
        raise KafkaError(Code.GROUP_MAX_SIZE_REACHED, message)


def _check_names(group: ConsumerGroup, before: Member, member: Member) -> None:
    """Raises INVALID_REQUEST."""
    if len(group.subscribers) + len(member.topic_names) <= MAX_GROUP_TOPICS or member.topic_names <= before.topic_names:
        return
    count = len(frozenset(group.topics_with(before, member, {})))
    if count > MAX_GROUP_TOPICS:
        message = f"The members of a group subscribe to {count} topics by name, and may subscribe to {MAX_GROUP_TOPICS} at most."
        raise KafkaError(Code.INVALID_REQUEST, message)


def _member(group: ConsumerGroup, beat: Heartbeat, out: Out) -> Member:
    """Who it is, as the group knows it. A static member that comes back has its predecessor's records written anew."""
    is_joining = beat.member_epoch == JOIN_EPOCH
    if beat.instance_id is None:
        known = group.members.get(beat.member_id) if is_joining else group.member(beat.member_id)
        if known is None:
            return Member(beat.member_id)
        _check_epoch(known, beat)
        return known
    static = group.static_member(beat.instance_id)
    if not is_joining:
        known = known_static(static, beat)
        _check_epoch(known, beat)
        return known
    if static is None:
        return group.members.get(beat.member_id) or Member(beat.member_id)
    if static.member_epoch != STATIC_LEAVE_EPOCH:
        message = (
            f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the instance id"
            f" is owned by {static.member_id} member."
        )
        raise KafkaError(Code.UNRELEASED_INSTANCE_ID, message)
    member = msgspec.structs.replace(static, member_id=beat.member_id, member_epoch=JOIN_EPOCH, previous_epoch=0)
    out.records += [
        *member_tombstones(group.group_id, static.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member.member_id, group.targets.get(static.member_id, {})),
        current_record(group.group_id, member),
    ]
    return member


def known_static(static: Member | None, beat: Heartbeat) -> Member:
    """Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another has taken its place."""
    if static is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"Instance id {beat.instance_id} is unknown.")
    if static.member_id != beat.member_id:
        message = f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by member {static.member_id}."
        raise KafkaError(Code.FENCED_INSTANCE_ID, message)
    return static


def _check_epoch(member: Member, beat: Heartbeat) -> None:
    """A member may come with the epoch of before when its last answer got lost: then it owns no more than it was assigned.

    Raises FENCED_MEMBER_EPOCH.
    """
    received, known = beat.member_epoch, member.member_epoch
    if received in (JOIN_EPOCH, known):
        return
    if received < known and received == member.previous_epoch and is_subset(beat.owned, member.assigned):
        return
    message = (
        f"The consumer group member has a {'greater' if received > known else 'smaller'} member epoch ({received}) than the one"
        f" known by the group coordinator ({known}). The member must abandon all its partitions and rejoin."
    )
    raise KafkaError(Code.FENCED_MEMBER_EPOCH, message)


def _with_news(member: Member, beat: Heartbeat) -> Member:
    """The member with what it says anew; the same one where that is nothing."""
    says = {
        "instance_id": beat.instance_id,
        "rack_id": beat.rack_id,
        "rebalance_timeout_ms": None if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
        "topic_names": None if beat.topic_names is None else frozenset(beat.topic_names),
        "topic_regex": beat.topic_regex,
        "assignor": beat.assignor,
        "client_id": beat.client_id,
        "client_host": beat.client_host,
    }
    news = {name: value for name, value in says.items() if value is not None and value != getattr(member, name)}
    return msgspec.structs.replace(member, **news) if news else member


# 2. the group's epoch, and 3. its target


def _regrouped(
    group: ConsumerGroup,
    before: Member,
    member: Member,
    beat: Heartbeat,
    config: ConsumerGroupConfig,
    topics: Topics,
    now_ms: int,
    expansions: Expansions,
    out: Out,
) -> Member:
    """The way of a heartbeat that may change more than its own member."""
    default = config.default_assignor
    regexes, regex_records, is_current = resolve(group, before, member, expansions, now_ms)
    out.records += regex_records
    is_stale = group.is_stale and is_current
    names = member.topics(regexes)
    has_new_subscription = names != before.topics(group.regexes)
    preferred = group.preferred_assignor(before, member) or default
    changes = has_new_subscription or preferred != (group.preferred_assignor() or default)
    epoch = group.group_epoch
    if changes or is_stale:
        current_hash = metadata_hash(group.topics_with(before, member, regexes), topics)
        if changes or current_hash != group.metadata_hash:
            epoch += 1
            out.records.append(epoch_record(group.group_id, epoch, current_hash))
        if is_current:
            out.effects.append(GroupLookedAtTopics(group.group_id))
    target = Target(group.assignment_epoch, group.target_of(member))
    if epoch > group.assignment_epoch and _may_assign(group, config, now_ms):
        assigned = _assign(group, member, epoch, config.assignors[preferred], regexes, topics, now_ms, out)
        target = Target(epoch, assigned)
    if has_new_subscription or not member.is_reconciled_to(target.epoch):
        return _reconciled(group, member, target, beat, subscribed_ids(names, topics), has_new_subscription, out)
    return member


def _may_assign(group: ConsumerGroup, config: ConsumerGroupConfig, now_ms: int) -> bool:
    """Whether the last target is old enough (group.consumer.assignment.interval.ms): many that join at once share the next.

    One of the future is: it was logged before a restart, and the wall clock was set back since.
    """
    return not group.assigned_ms or not group.assigned_ms <= now_ms < group.assigned_ms + config.assignment_interval_ms


def _assign(
    group: ConsumerGroup,
    member: Member,
    epoch: int,
    assignor: Assignor,
    regexes: Resolved,
    topics: Topics,
    now_ms: int,
    out: Out,
) -> Assignment:
    """A target for everybody; records of those that have another than before. Gives the member's own."""
    members, targets = {**group.members, member.member_id: member}, group.targets
    replaced = None if member.instance_id is None else group.static_members.get(member.instance_id)
    if replaced is not None and replaced != member.member_id:
        members.pop(replaced)
        targets = {(member.member_id if m == replaced else m): target for m, target in targets.items()}
    assigned = assign(assignor, members, targets, regexes, topics)
    for member_id in members:
        if assigned.get(member_id, {}) != targets.get(member_id):
            out.records.append(target_record(group.group_id, member_id, assigned.get(member_id, {})))
    out.records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return assigned.get(member.member_id, {})


# 4. the member's own assignment


def _reconciled(
    group: ConsumerGroup,
    member: Member,
    target: Target,
    beat: Heartbeat,
    subscribed: frozenset[bytes],
    has_new_subscription: bool,
    out: Out,
) -> Member:
    changed = reconciled(member, target, subscribed, group.is_taken, beat.owned, has_new_subscription=has_new_subscription)
    if changed != member:
        out.records.append(current_record(group.group_id, changed))
    return changed


# leaving


def leave(group: ConsumerGroup, beat: Heartbeat, topics: Topics) -> Out:
    """A member goes for good at epoch -1; a static one at -2 until it comes back, or its session ends."""
    answer = HeartbeatAnswer(beat.member_id, beat.member_epoch)
    if beat.instance_id is None:
        member = group.member(beat.member_id)
    else:
        member = known_static(group.static_member(beat.instance_id), beat)
        if beat.member_epoch == STATIC_LEAVE_EPOCH:
            assigned: Partitions = {topic: dict.fromkeys(epochs, 0) for topic, epochs in member.assigned.items()}
            away = msgspec.structs.replace(member, member_epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking={})
            return Result(answer, records=[current_record(group.group_id, away)])
    return Result(answer, records=fenced(group, [member.member_id], topics))


def fenced(group: ConsumerGroup, member_ids: list[str], topics: Topics) -> list[LogRecord]:
    """Members are in the group no longer. Whoever comes next has the next target computed."""
    records = [record for m in member_ids for record in member_tombstones(group.group_id, m)]
    gone = [group.members[member_id] for member_id in member_ids]
    expressions = group.regex_subscribers - Counter(member.topic_regex for member in gone if member.topic_regex)
    regexes = {regex: topics for regex, topics in group.regexes.items() if regex in expressions}
    records += [regex_tombstone(group.group_id, regex) for regex in group.regexes if regex not in regexes]
    names = group.subscribers - Counter(topic for member in gone for topic in member.topic_names)
    subscribed = frozenset(names).union(*regexes.values())
    epoch = group.group_epoch + 1
    records.append(epoch_record(group.group_id, epoch, metadata_hash(subscribed, topics)))
    if len(member_ids) == len(group.members):
        records.append(target_epoch_record(group.group_id, epoch, 0))
    return records


def is_leaving(beat: Heartbeat) -> bool:
    return beat.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
