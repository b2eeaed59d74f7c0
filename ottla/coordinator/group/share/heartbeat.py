"""Decides a heartbeat (GroupMetadataManager.shareGroupHeartbeat of Kafka). It answers five questions, in this order.

1. Is the sender a member with the right epoch, or may it join?
2. Has the member's subscription changed, have its topics changed, or were partitions initialized? Then the group's epoch rises.
3. Is there a target assignment of the group's epoch? If not, it is computed, once for all members.
4. Has the member reached its target? If not, it moves there now: partitions are shared, so it waits for no other member.
5. Does the share coordinator lack states of partitions of the members' topics? Then it is requested to initialize them
   (`initialization`), and the partitions are assigned afterwards.

Functions in this module change nothing: they return the records of the changes. Most heartbeats need no record, so their
duration does not depend on the group's size.
"""

from __future__ import annotations

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.assignors.simple import assign_simply
from ottla.coordinator.group.epochs import JOIN_EPOCH
from ottla.coordinator.group.modern.effects import MemberSeen, TopicsRead
from ottla.coordinator.group.modern.group import known_member
from ottla.coordinator.group.modern.sender import check_size, wrong_epoch
from ottla.coordinator.group.modern.target import assignor_input, may_assign
from ottla.coordinator.group.named_topics import check_group_topics
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.initialization import missing_states
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.group.share.records import RECORDS, current_record, epoch_record, member_record
from ottla.coordinator.group.share.requests import ShareGroupConfig, ShareHeartbeat, ShareHeartbeatAnswer, ShareHeartbeatOutcome
from ottla.coordinator.group.topics import GroupTopics, metadata_hash, subscribed_ids
from ottla.coordinator.result import LogRecord, Result

Out = Result[ShareHeartbeatOutcome]


def heartbeat(group: ShareGroup, beat: ShareHeartbeat, config: ShareGroupConfig, topics: GroupTopics, now_ms: int) -> Out:
    """Handle the heartbeat of a member that stays, or joins at epoch 0. Raises `KafkaError`."""
    before = _member(group, beat, config)
    member = _with_news(before, beat)
    check_group_topics(group.subscribers, before.topic_names, member.topic_names)
    out: Out = Result(ShareHeartbeatOutcome(ShareHeartbeatAnswer(beat.request.member_id, 0, config.heartbeat_interval_ms)))
    if member != before:
        out.records.append(member_record(group.group_id, member))
    changes = member.topic_names != before.topic_names
    if group.assignment_epoch >= group.group_epoch:
        changes = changes or group.has_unassigned()
    names, epoch = frozenset(group.subscribers), group.group_epoch
    if changes or group.is_stale:
        names = group.topics_with(before, member)
        current_hash = metadata_hash(names, topics)
        changes = changes or current_hash != group.metadata_hash
        if changes:
            epoch += 1
            out.records.append(epoch_record(group.group_id, epoch, current_hash))
        out.effects.append(TopicsRead(group.group_id))
    target_epoch, target = group.assignment_epoch, group.targets.get(member.member_id, {})
    if epoch > target_epoch and may_assign(group.assigned_ms, config.assignment_interval_ms, now_ms):
        target_epoch, target = epoch, _assign(group, member, epoch, topics, now_ms, out)
    assigned = _at_target(member, target_epoch, target, topics, has_changes=changes)
    if assigned != member:
        out.records.append(current_record(group.group_id, assigned))
    out.effects.append(MemberSeen(group.group_id, member.member_id, now_ms))
    answer = out.response.answer
    answer.member_epoch = assigned.member_epoch
    if (
        beat.request.member_epoch == JOIN_EPOCH
        or beat.request.subscribed_topic_names is not None
        or assigned.assigned != before.assigned
    ):
        answer.assignment = assigned.assigned
    out.response.initialization = missing_states(
        group, epoch, names, config.initialize_retry_interval_ms, topics, now_ms, out.records
    )
    return out


def _member(group: ShareGroup, beat: ShareHeartbeat, config: ShareGroupConfig) -> ShareGroupMember:
    known = group.members.get(beat.request.member_id)
    check_size(group, config.max_size, is_known=known is not None)
    if beat.request.member_epoch == JOIN_EPOCH:
        return known or ShareGroupMember(beat.request.member_id)
    known = known_member(group, beat.request.member_id)
    received, epoch = beat.request.member_epoch, known.member_epoch
    # Accept the previous epoch, because a member that lost the last response sends it.
    if received in (epoch, known.previous_epoch) and received <= epoch:
        return known
    reason = f", and it does not match the previous member epoch ({known.previous_epoch})" if received < epoch else ""
    raise wrong_epoch(group, received, epoch, reason)


def _with_news(member: ShareGroupMember, beat: ShareHeartbeat) -> ShareGroupMember:
    return msgspec.structs.replace(
        member,
        rack_id=member.rack_id if beat.request.rack_id is None else beat.request.rack_id,
        topic_names=member.topic_names
        if beat.request.subscribed_topic_names is None
        else frozenset(beat.request.subscribed_topic_names),
        client_id=beat.client_id,
        client_host=beat.client_host,
    )


def _assign(group: ShareGroup, member: ShareGroupMember, epoch: int, topics: GroupTopics, now_ms: int, out: Out) -> Assignment:
    members = {**group.members, member.member_id: member}
    specs, counts = assignor_input(members, group.targets, lambda one: one.topic_names, topics)
    initialized = {} if group.states is None else group.states.initialized
    assigned = assign_simply(specs, counts, {topic_id: topic.partitions for topic_id, topic in initialized.items()})
    for member_id in members:
        if assigned.get(member_id, {}) != group.targets.get(member_id):
            out.records.append(RECORDS.target_record(group.group_id, member_id, assigned.get(member_id, {})))
    out.records.append(RECORDS.target_epoch_record(group.group_id, epoch, now_ms))
    return assigned.get(member.member_id, {})


def _at_target(
    member: ShareGroupMember, target_epoch: int, target: Assignment, topics: GroupTopics, *, has_changes: bool
) -> ShareGroupMember:
    if member.member_epoch == target_epoch and not has_changes:
        return member
    ids = subscribed_ids(member.topic_names, topics)
    assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in ids}
    if member.member_epoch == target_epoch:
        return msgspec.structs.replace(member, assigned=assigned)
    return msgspec.structs.replace(member, member_epoch=target_epoch, previous_epoch=member.member_epoch, assigned=assigned)


# removing members


def leave(group: ShareGroup, beat: ShareHeartbeat, topics: GroupTopics) -> Out:
    """Handle a member that leaves. Raises UNKNOWN_MEMBER_ID."""
    member = known_member(group, beat.request.member_id)
    answer = ShareHeartbeatAnswer(beat.request.member_id, beat.request.member_epoch)
    return Result(ShareHeartbeatOutcome(answer), records=fenced(group, [member.member_id], topics))


def fenced(group: ShareGroup, member_ids: list[str], topics: GroupTopics) -> list[LogRecord]:
    """Return the records that remove members. The group's epoch rises, so the next heartbeat computes a new target.

    Records that the members have acquired are not released here: they belong to share sessions, and are released when these end.
    """
    records = [record for member_id in member_ids for record in RECORDS.member_tombstones(group.group_id, member_id)]
    gone = frozenset(member_ids)
    subscribed = frozenset[str]().union(*(m.topic_names for m in group.members.values() if m.member_id not in gone))
    epoch = group.group_epoch + 1
    records.append(epoch_record(group.group_id, epoch, metadata_hash(subscribed, topics)))
    if len(member_ids) == len(group.members):
        records.append(RECORDS.target_epoch_record(group.group_id, epoch, 0))
    return records
