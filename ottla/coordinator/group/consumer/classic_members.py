"""Members of a consumer group that use the classic protocol (GroupMetadataManager.classicGroup*ToConsumerGroup of Kafka).

A heartbeat response makes such a member rejoin. Its JoinGroup is one step of the reconciliation, and gets a response at once, with
the member epoch as the generation and without a leader; its SyncGroup returns its current assignment. So the member sees a classic
group in which another member is the leader. A member with an eager assignor owns nothing when it joins, so one JoinGroup suffices.
A member with a cooperative assignor joins once more after it has revoked partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.downgrading import Downgrading
from ottla.coordinator.group.consumer.effects import ClassicMemberJoined
from ottla.coordinator.group.consumer.group import CONSUMER, ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import successor
from ottla.coordinator.group.consumer.member import ClassicMember, ConsumerGroupMember, ConsumerMemberState
from ottla.coordinator.group.consumer.reconciliation import Target
from ottla.coordinator.group.consumer.records import member_record
from ottla.coordinator.group.consumer.regrouping import Cycle, next_epoch, regrouped, stepped
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig
from ottla.coordinator.group.consumer_protocol import Subscription, read_subscription, written_assignment
from ottla.coordinator.group.modern.group import extend_session, known_member, static_member
from ottla.coordinator.group.modern.sender import check_size, is_known_sender, known_static
from ottla.coordinator.group.named_topics import check_group_topics, check_member_topics
from ottla.coordinator.group.requests import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import AnswerMember, Result
from ottla.protocol.errors import Code, DecodeError, KafkaError

Out = Result[None]


def join(
    group: ConsumerGroup,
    request: JoinRequest,
    config: ConsumerGroupConfig,
    topics: GroupTopics,
    now_ms: int,
    new_id: Callable[[], str],
    downgrading: Downgrading,
) -> Out:
    """Handle JoinGroup after its session timeout was checked. The response is sent with ``request.waiter``. Raises `KafkaError`."""
    member_id = request.member_id or new_id()
    check_size(group, config.max_size, is_known=is_known_sender(group, member_id, request.instance_id))
    if not group.accepts_classic(request.protocol_type, {name for name, _ in request.protocols}):
        raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if not request.member_id and request.instance_id is None and request.needs_known_id:
        asked = JoinAnswer(code=Code.MEMBER_ID_REQUIRED, member_id=member_id)
        return Result(None, effects=[AnswerMember(request.waiter, asked)])
    out: Out = Result(None)
    before = _member(group, request, member_id, out)
    replaced = static_member(group, request.instance_id)
    subscription = _subscription(request)
    check_member_topics(subscription.topics)
    member = _renewed(before, request, subscription)
    check_group_topics(group.subscribers, before.topic_names, member.topic_names)
    if member != before:
        out.records.append(member_record(group.group_id, member))
    cycle = Cycle(group, before, member, _by_id(subscription.owned, topics), config, topics, now_ms)
    if replaced is not None and downgrading.may_replace(group, replaced):
        member = _downgraded(cycle, downgrading, out)
    else:
        member = regrouped(cycle, {}, out)
        out.effects.append(ClassicMemberJoined(group.group_id, member.member_id, now_ms, request.rebalance_timeout_ms))
    answer = JoinAnswer(
        generation=member.member_epoch, protocol_type=CONSUMER, protocol=request.protocols[0][0], member_id=member.member_id
    )
    out.effects.append(AnswerMember(request.waiter, answer))
    return out


def _member(group: ConsumerGroup, request: JoinRequest, member_id: str, out: Out) -> ConsumerGroupMember:
    if request.instance_id is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if request.member_id:
        return _active(group, member_id, request.instance_id)
    static = static_member(group, request.instance_id)
    return ConsumerGroupMember(member_id) if static is None else successor(group, static, member_id, out.records)


def _active(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    if instance_id is None:
        return known_member(group, member_id)
    static = static_member(group, instance_id)
    if static is None:
        message = f"Member with instance id {instance_id} is not a member of group {group.group_id}."
        raise KafkaError(Code.UNKNOWN_MEMBER_ID, message)
    return known_static(static, member_id, instance_id)


def _subscription(request: JoinRequest) -> Subscription:
    try:
        return read_subscription(request.protocols[0][1])
    except DecodeError as error:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL, message) from error


def _renewed(member: ConsumerGroupMember, request: JoinRequest, subscription: Subscription) -> ConsumerGroupMember:
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=subscription.topics,
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMember(session_timeout_ms=request.session_timeout_ms, protocols=tuple(request.protocols)),
    )


def _by_id(partitions: Mapping[str, frozenset[int]], topics: GroupTopics) -> dict[bytes, frozenset[int]]:
    named = ((topics.topic_id(name), indexes) for name, indexes in partitions.items())
    return {topic_id: indexes for topic_id, indexes in named if topic_id is not None}


def _downgraded(cycle: Cycle, downgrading: Downgrading, out: Out) -> ConsumerGroupMember:
    """Convert the group to a classic group, because its last member of the consumer protocol rejoined with the classic protocol.

    If the target assignment is older than the group's epoch, the classic group rebalances, and this JoinGroup counts for the
    rebalance.
    """
    group, member = cycle.group, cycle.member
    group_now = next_epoch(cycle, {}, out)
    rebalances = group.assignment_epoch < group_now.epoch
    if not rebalances:
        target = Target(group.assignment_epoch, group.target_of(member))
        if group_now.has_new_subscription or not member.is_reconciled_to(target.epoch):
            member = stepped(cycle, target, group_now.regexes, group_now.has_new_subscription, out)
    # Drop the effects on the consumer group, because the conversion removes that group.
    change = downgrading.with_successor(group, member, rebalances=rebalances, now_ms=cycle.now_ms)
    out.records += change.records
    out.effects = change.effects
    return member


# SyncGroup and Heartbeat write no records, so their handlers change the deadlines at once.


def sync(group: ConsumerGroup, request: SyncRequest, topics: GroupTopics, now_ms: int) -> SyncAnswer:
    """Return the member's current assignment. Raises `KafkaError`."""
    member, classic = _of_generation(group, request.member_id, request.instance_id, request.generation)
    protocol, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, protocol):
        message = f"{request.protocol_type} {request.protocol} of member {member.member_id} is not {CONSUMER} {protocol}."
        raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL, message)
    if group.assignment_epoch > member.member_epoch and member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
        group.await_join(member, now_ms)
        raise _is_to_join(group, member)
    group.syncs_ms.pop(member.member_id, None)
    extend_session(group, member.member_id, now_ms + classic.session_timeout_ms)
    assigned: Assignment = {topic: frozenset(epochs) for topic, epochs in member.assigned.items()}
    return SyncAnswer(
        protocol_type=request.protocol_type,
        protocol=request.protocol,
        assignment=written_assignment(by_name(assigned, topics), metadata),
    )


def heartbeat(group: ConsumerGroup, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> None:
    """Handle Heartbeat. Raises `KafkaError`, for example REBALANCE_IN_PROGRESS if the reconciliation can make its next step."""
    member, classic = _of_generation(group, member_id, instance_id, generation)
    extend_session(group, member_id, now_ms + classic.session_timeout_ms)
    may_step = member.state is ConsumerMemberState.UNRELEASED_PARTITIONS and not group.waits_for_partitions(member)
    if member.member_epoch < group.assignment_epoch or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS or may_step:
        group.await_join(member, now_ms)
        raise _is_to_join(group, member)


def _of_generation(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerGroupMember, ClassicMember]:
    member = _active(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation != member.member_epoch:
        message = (
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of member {member_id}."
        )
        raise KafkaError(Code.ILLEGAL_GENERATION, message)
    return member, member.classic


def _is_to_join(group: ConsumerGroup, member: ConsumerGroupMember) -> KafkaError:
    message = f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin to catch up."
    return KafkaError(Code.REBALANCE_IN_PROGRESS, message)


def by_name(assignment: Assignment, topics: GroupTopics) -> dict[str, frozenset[int]]:
    """Return the partitions by topic name, without topics that no longer exist."""
    named = ((topics.topic_name(topic), partitions) for topic, partitions in assignment.items())
    return {name: partitions for name, partitions in named if name is not None}
