"""Decides a heartbeat (GroupMetadataManager.consumerGroupHeartbeat of Kafka). It answers four questions, in this order.

1. Is the sender a member with the right epoch, or may it join? A static member takes its predecessor's place.
2. Has the member's subscription or other data changed, or have its topics changed? Then the group's epoch rises.
3. Is there a target assignment of the group's epoch? If not, it is computed, once for all members.
4. Has the member reached its target? If not, it makes the next step (`reconciliation`).

`regrouping` answers the last three. Functions in this module change nothing: they return the records of the changes. Most
heartbeats need no record, so their duration does not depend on the group's size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerGroupMember, HeldPartitions, is_subset
from ottla.coordinator.group.consumer.records import RECORDS, current_record, epoch_record, member_record, regex_tombstone
from ottla.coordinator.group.consumer.regrouping import Cycle, regrouped
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig, ConsumerHeartbeat, ConsumerHeartbeatAnswer, is_full
from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.group.modern.effects import MemberSeen
from ottla.coordinator.group.modern.group import known_member, static_member
from ottla.coordinator.group.modern.sender import check_size, is_known_sender, known_static, unreleased, wrong_epoch
from ottla.coordinator.group.named_topics import check_group_topics, check_member_topics
from ottla.coordinator.group.subscriptions import Expansions
from ottla.coordinator.group.topics import GroupTopics, metadata_hash
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError

Out = Result[ConsumerHeartbeatAnswer]


def check_heartbeat(beat: ConsumerHeartbeat, assignors: Iterable[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that no group would accept."""

    def refuse(message: str) -> KafkaError:
        return KafkaError(Code.INVALID_REQUEST, message)

    request, epoch = beat.request, beat.request.member_epoch
    check_member_topics(request.subscribed_topic_names or ())
    if not request.member_id.strip() and (beat.version >= 1 or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH):
        raise refuse("MemberId can't be empty.")
    for text, name in ((request.group_id, "GroupId"), (request.instance_id, "InstanceId"), (request.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise refuse(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise refuse("RebalanceTimeoutMs must be provided in first request.")
        if beat.owned is None or beat.owned:
            raise refuse("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise refuse("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise refuse("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise refuse("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        raise KafkaError(Code.UNSUPPORTED_ASSIGNOR, message)


def heartbeat(
    group: ConsumerGroup,
    beat: ConsumerHeartbeat,
    config: ConsumerGroupConfig,
    topics: GroupTopics,
    now_ms: int,
    expansions: Expansions,
) -> Out:
    """Handle the heartbeat of a member that stays, or joins at epoch 0. ``expansions`` are the topics of newly resolved
    expressions.

    Raises `KafkaError`.
    """
    check_size(group, config.max_size, is_known=is_known_sender(group, beat.request.member_id, beat.request.instance_id))
    out: Out = Result(ConsumerHeartbeatAnswer(beat.request.member_id, 0, config.heartbeat_interval_ms))
    before = _member(group, beat, out)
    member = _with_news(before, beat)
    check_group_topics(group.subscribers, before.topic_names, member.topic_names)
    if member is not before:
        out.records.append(member_record(group.group_id, member))
    member = regrouped(Cycle(group, before, member, beat.owned, config, topics, now_ms), expansions, out)
    out.effects.append(MemberSeen(group.group_id, member.member_id, now_ms))
    answer = out.response
    answer.member_epoch = member.member_epoch
    if beat.request.member_epoch == JOIN_EPOCH or is_full(beat) or (member is not before and member.assigned != before.assigned):
        answer.assignment = member.assigned
    return out


# 1. Is the sender a member, or may it join?


def _member(group: ConsumerGroup, beat: ConsumerHeartbeat, out: Out) -> ConsumerGroupMember:
    """Return the sender as the group knows it, or a new member. If a static member rejoins, records replace its predecessor.

    A predecessor that uses the classic protocol need not leave first, because that protocol has no temporary leave.
    """
    request = beat.request
    is_joining = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        known = group.members.get(request.member_id) if is_joining else known_member(group, request.member_id)
        if known is None:
            return ConsumerGroupMember(request.member_id)
        _check_epoch(group, known, beat)
        return known
    static = static_member(group, request.instance_id)
    if not is_joining:
        known = known_static(static, request.member_id, request.instance_id)
        _check_epoch(group, known, beat)
        return known
    if static is None:
        return group.members.get(request.member_id) or ConsumerGroupMember(request.member_id)
    if static.classic is None and static.member_epoch != STATIC_LEAVE_EPOCH:
        raise unreleased(static, request.member_id, request.instance_id)
    return successor(group, static, request.member_id, out.records)


def successor(group: ConsumerGroup, static: ConsumerGroupMember, member_id: str, records: list[LogRecord]) -> ConsumerGroupMember:
    """Return a static member that rejoins with a new member id, with the subscription and assignment of its predecessor."""
    member = msgspec.structs.replace(static, member_id=member_id, member_epoch=JOIN_EPOCH, previous_epoch=0)
    records += [
        *RECORDS.member_tombstones(group.group_id, static.member_id),
        member_record(group.group_id, member),
        RECORDS.target_record(group.group_id, member.member_id, group.targets.get(static.member_id, {})),
        current_record(group.group_id, member),
    ]
    return member


def _check_epoch(group: ConsumerGroup, member: ConsumerGroupMember, beat: ConsumerHeartbeat) -> None:
    """Raise FENCED_MEMBER_EPOCH for a wrong epoch.

    A member may send its previous epoch if it lost the last response, but then must not own more than its assignment.
    """
    received, known = beat.request.member_epoch, member.member_epoch
    if received in (JOIN_EPOCH, known):
        return
    if received < known and received == member.previous_epoch and is_subset(beat.owned, member.assigned):
        return
    raise wrong_epoch(group, received, known)


def _with_news(member: ConsumerGroupMember, beat: ConsumerHeartbeat) -> ConsumerGroupMember:
    request = beat.request
    says = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "topic_names": None if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
        "topic_regex": request.subscribed_topic_regex,
        "assignor": request.server_assignor,
        "client_id": beat.client_id,
        "client_host": beat.client_host,
    }
    news: dict[str, object] = {n: value for n, value in says.items() if value is not None and value != getattr(member, n)}
    if member.classic is not None:
        news["classic"] = None
    return msgspec.structs.replace(member, **news) if news else member


# removing members


def leave(group: ConsumerGroup, beat: ConsumerHeartbeat, fence: Callable[[list[str]], Result[None]]) -> Out:
    """Handle a member that leaves at epoch -1, or a static member that leaves at -2 until it rejoins or its session expires.

    ``fence`` removes the member, and decides the type of the remaining group.
    """
    request = beat.request
    answer = ConsumerHeartbeatAnswer(request.member_id, request.member_epoch)
    if request.instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static(static_member(group, request.instance_id), request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            assigned: HeldPartitions = {topic: dict.fromkeys(epochs, 0) for topic, epochs in member.assigned.items()}
            away = msgspec.structs.replace(member, member_epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking={})
            return Result(answer, records=[current_record(group.group_id, away)])
    left = fence([member.member_id])
    return Result(answer, records=left.records, effects=left.effects)


def fenced(group: ConsumerGroup, member_ids: list[str], topics: GroupTopics) -> list[LogRecord]:
    """Return the records that remove members. The group's epoch rises, so the next heartbeat computes a new target."""
    records = [record for m in member_ids for record in RECORDS.member_tombstones(group.group_id, m)]
    gone = [group.members[member_id] for member_id in member_ids]
    expressions = group.regex_subscribers - Counter(member.topic_regex for member in gone if member.topic_regex)
    regexes = {regex: topics for regex, topics in group.regexes.items() if regex in expressions}
    records += [regex_tombstone(group.group_id, regex) for regex in group.regexes if regex not in regexes]
    names = group.subscribers - Counter(topic for member in gone for topic in member.topic_names)
    subscribed = frozenset(names).union(*regexes.values())
    epoch = group.group_epoch + 1
    records.append(epoch_record(group.group_id, epoch, metadata_hash(subscribed, topics)))
    if len(member_ids) == len(group.members):
        records.append(RECORDS.target_epoch_record(group.group_id, epoch, 0))
    return records


def is_leaving(beat: ConsumerHeartbeat) -> bool:
    return beat.request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
