"""Converts groups with members to the other protocol, in both directions (KIP-848, group.consumer.migration.policy).

A classic group of consumers becomes a consumer group when a member of the consumer protocol joins. The other members remain as
members of the classic protocol (`consumer.classic_members`). The group becomes a classic group again when its last member of the
consumer protocol leaves, or rejoins with the classic protocol under its instance id. The group keeps its offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.classic.effects import ReplaceGroup
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from ottla.coordinator.group.classic.rebalance import prepare_rebalance
from ottla.coordinator.group.consumer.classic_members import by_name
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ClassicMember, ConsumerGroupMember
from ottla.coordinator.group.consumer.records import RECORDS, current_record, epoch_record, group_tombstones, member_record
from ottla.coordinator.group.consumer_protocol import CONSUMER, read_assignment, read_subscription, written_assignment
from ottla.coordinator.group.modern.effects import MemberSeen
from ottla.coordinator.group.named_topics import check_member_topics, check_topic_count
from ottla.coordinator.group.records import group_record, group_tombstone
from ottla.coordinator.group.requests import GroupConfig, JoinAnswer, SyncAnswer
from ottla.coordinator.group.topics import GroupTopics, metadata_hash
from ottla.coordinator.result import AnswerMember, Effect, LogRecord, Result
from ottla.protocol.errors import Code, DecodeError, KafkaError


class Upgrade(NamedTuple):
    """A conversion to a consumer group. Replaying ``records`` creates ``group``, which is None if the classic group has no members.

    The request of the joining member is decided as if the records were already replayed.
    """

    group: ConsumerGroup | None
    records: list[LogRecord]
    effects: list[Effect]


class Migration:
    """Converts classic groups to consumer groups, and as a `Downgrading` back."""

    def __init__(self, config: GroupConfig, topics: GroupTopics) -> None:
        self._config = config
        self._topics = topics

    # converting classic groups to consumer groups

    def upgrade(self, group: ClassicGroup, now_ms: int) -> Upgrade:
        """Convert to a consumer group (GroupMetadataManager.convertToConsumerGroup). Members that wait in a rebalance must join
        again. Raises GROUP_ID_NOT_FOUND."""
        self._check_upgrade(group)
        upgraded = _upgraded(group, self._topics)
        rebalance = Code.REBALANCE_IN_PROGRESS
        effects: list[Effect] = [
            MemberSeen(group.group_id, one.member_id, now_ms, one.session_timeout_ms) for one in group.members.values()
        ]
        effects += [AnswerMember(one, JoinAnswer(code=rebalance, member_id=m)) for m, one in group.join_waiters.items()]
        effects += [AnswerMember(one, SyncAnswer(code=rebalance)) for one in group.sync_waiters.values()]
        return Upgrade(upgraded, [group_tombstone(group.group_id), *_records_of(upgraded)], effects)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._config.migration.upgrades:
            raise _not_upgraded(group, " because online upgrade is disabled.")
        if group.protocol_type != CONSUMER:
            raise _not_upgraded(group, " because the group does not use the consumer embedded protocol.")
        if len(group.members) > self._config.consumer_of(group.group_id).max_size:
            raise _not_upgraded(group, " because the group size exceeds the consumer group maximum size.")

    # converting consumer groups to classic groups

    def without(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> Result[None] | None:
        """Remove members. The remaining members rebalance as a classic group (GroupMetadataManager.consumerGroupFenceMembers).

        Returns None if the group is not converted.
        """
        left = len(group.members) - len(member_ids)
        if left == 0 or not group.uses_classic_protocol_without(member_ids) or not self._may_downgrade(left):
            return None
        records = group_tombstones(group.group_id, group.members, group.regexes)
        members = [member for member in group.members.values() if member.member_id not in member_ids]
        targets = {m.member_id: group.targets.get(m.member_id, {}) for m in members}
        return self._downgraded(group, members, targets, records, rebalances=True, now_ms=now_ms)

    def may_replace(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        is_last = replaced.classic is None and group.uses_classic_protocol_without([replaced.member_id])
        return is_last and self._may_downgrade(len(group.members))

    def _may_downgrade(self, size: int) -> bool:
        return self._config.migration.downgrades and size <= self._config.max_size

    def with_successor(self, group: ConsumerGroup, joining: ConsumerGroupMember, *, rebalances: bool, now_ms: int) -> Result[None]:
        """Convert the group, with ``joining`` in place of a static member. The tombstones also remove records of ``joining`` that
        are earlier in the batch."""
        others = [m for m in group.members.values() if m.instance_id is None or m.instance_id != joining.instance_id]
        targets = {m.member_id: group.targets.get(m.member_id, {}) for m in others}
        targets[joining.member_id] = group.target_of(joining)
        member_ids = [joining.member_id if m.instance_id == joining.instance_id else m.member_id for m in group.members.values()]
        records = group_tombstones(group.group_id, member_ids, group.regexes)
        return self._downgraded(group, [*others, joining], targets, records, rebalances=rebalances, now_ms=now_ms)

    def _downgraded(
        self,
        group: ConsumerGroup,
        members: list[ConsumerGroupMember],
        targets: dict[str, Assignment],
        records: list[LogRecord],
        *,
        rebalances: bool,
        now_ms: int,
    ) -> Result[None]:
        """Create a stable classic group in which each member has its target assignment (ClassicGroup.fromConsumerGroup)."""
        draft = ClassicGroup(group.group_id, state=ClassicGroupState.STABLE, generation=group.group_epoch, state_since_ms=now_ms)
        for member in members:
            classic = _classic_member(member)
            draft.add(classic)
            draft.extend_session(classic, now_ms)
        draft.protocol = draft.select_protocol()
        for member_id, classic in draft.members.items():
            partitions = by_name(targets[member_id], self._topics)
            draft.assignments[member_id] = written_assignment(partitions, classic.metadata(draft.protocol))
        out: Result[None] = Result(None, records=[*records, group_record(draft, now_ms)])
        if rebalances:
            prepare_rebalance(draft, now_ms, out)
        # The group's record has only one protocol of each member, but the group in memory must have all protocols.
        out.effects.append(ReplaceGroup(draft))
        return out


def _not_upgraded(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(Code.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group.group_id} to consumer group{reason}")


def _upgraded(group: ClassicGroup, topics: GroupTopics) -> ConsumerGroup:
    """Create the consumer group: each member's epoch is the generation, and its target is the leader's assignment
    (ConsumerGroup.fromClassicGroup)."""
    upgraded = ConsumerGroup(group.group_id, group_epoch=group.generation, assignment_epoch=group.generation)
    # Before its first generation a group has no protocol. Use the protocol that it would select then.
    protocol = group.protocol or group.select_protocol()
    for classic in group.members.values():
        assigned = _assigned(group, classic.member_id, topics)
        if any(upgraded.is_taken(topic, partition) for topic, partitions in assigned.items() for partition in partitions):
            raise _not_upgraded(group, " because a partition is assigned to several members.")
        upgraded.put(_consumer_member(group, classic, protocol, assigned))
        upgraded.targets[classic.member_id] = assigned
    try:
        for member in upgraded.members.values():
            check_member_topics(member.topic_names)
        check_topic_count(len(upgraded.subscribers))
    except KafkaError as error:
        raise _not_upgraded(group, f": {error.message}") from error
    upgraded.metadata_hash = metadata_hash(upgraded.subscribers, topics)
    return upgraded


def _assigned(group: ClassicGroup, member_id: str, topics: GroupTopics) -> Assignment:
    try:
        assignment = read_assignment(group.assignments.get(member_id, b""))
    except DecodeError as error:
        raise _not_upgraded(group, " because the embedded consumer protocol is malformed.") from error
    if assignment.user_data:
        reason = (
            " because an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor"
            " before re-attempting the upgrade."
        )
        raise _not_upgraded(group, reason)
    named = ((topics.topic_id(name), partitions) for name, partitions in assignment.partitions.items())
    return {topic: partitions for topic, partitions in named if topic is not None}


def _consumer_member(
    group: ClassicGroup, classic: ClassicGroupMember, protocol: str | None, assigned: Assignment
) -> ConsumerGroupMember:
    try:
        subscription = read_subscription(classic.metadata(protocol))
    except DecodeError as error:
        raise _not_upgraded(group, " because the embedded consumer protocol is malformed.") from error
    return ConsumerGroupMember(
        member_id=classic.member_id,
        instance_id=classic.instance_id,
        rack_id=subscription.rack_id,
        client_id=classic.client_id,
        client_host=classic.client_host,
        rebalance_timeout_ms=classic.rebalance_timeout_ms,
        topic_names=subscription.topics,
        member_epoch=group.generation,
        previous_epoch=group.generation,
        assigned={topic: dict.fromkeys(sorted(partitions), group.generation) for topic, partitions in assigned.items()},
        classic=ClassicMember(session_timeout_ms=classic.session_timeout_ms, protocols=tuple(classic.protocols)),
    )


def _records_of(group: ConsumerGroup) -> list[LogRecord]:
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, group.group_epoch, group.metadata_hash),
        *(RECORDS.target_record(group_id, member.member_id, group.targets[member.member_id]) for member in members),
        RECORDS.target_epoch_record(group_id, group.assignment_epoch, group.assigned_ms),
        *(current_record(group_id, member) for member in members),
    ]


def _classic_member(member: ConsumerGroupMember) -> ClassicGroupMember:
    assert member.classic is not None, f"{member.member_id} uses the consumer protocol"
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=CONSUMER,
        protocols=list(member.classic.protocols),
    )
