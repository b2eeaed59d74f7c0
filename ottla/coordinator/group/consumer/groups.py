"""All consumer groups of a shard: their decisions, their deadlines, and the replay of their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import msgspec

from ottla.coordinator.group.consumer import classic_members, records
from ottla.coordinator.group.consumer.downgrading import Downgrading, NeverDowngraded
from ottla.coordinator.group.consumer.effects import (
    AwaitNextConsumerDeadline,
    ClassicMemberJoined,
    ConsumerGroupTopicsRead,
    ConsumerMemberSeen,
)
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import fenced, heartbeat, is_leaving, leave
from ottla.coordinator.group.consumer.member import UNKNOWN_TIMEOUT_MS, ConsumerGroupMember
from ottla.coordinator.group.consumer.requests import ConfigOfGroup, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla.coordinator.group.deadlines import MAX_FENCED_MEMBERS, Deadlines
from ottla.coordinator.group.epochs import JOIN_EPOCH, NO_TARGET_EPOCH
from ottla.coordinator.group.modern.records import read_target, read_target_epoch
from ottla.coordinator.group.requests import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from ottla.coordinator.group.subscriptions import Expansions, expanded
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import AnswerMember, Effect, Result, first_that_fit
from ottla.protocol.errors import Code, KafkaError


class ConsumerGroups:
    """All consumer groups of a shard. `replay` takes their records; `apply` makes the changes that are not logged.

    ``new_id`` generates ids for members without one. ``downgrading`` decides whether a group becomes a classic one when members
    leave.
    """

    def __init__(
        self, config_of: ConfigOfGroup, topics: GroupTopics, new_id: Callable[[], str], downgrading: Downgrading | None = None
    ) -> None:
        self._config_of = config_of
        self.groups: dict[str, ConsumerGroup] = {}
        self._topics = topics
        self._deadlines = Deadlines(self.groups)
        self._new_id = new_id
        self._downgrading = downgrading or NeverDowngraded()

    # commands

    async def expansions(self, beat: ConsumerHeartbeat) -> Expansions:
        """Resolve the regular expressions that `heartbeat` needs and that are not resolved yet.

        The result is valid only until the event loop runs other work.
        """
        group = self.groups.get(beat.group_id)
        resolves_all = group is not None and group.is_stale and not group.is_resolving
        if group is not None and resolves_all:
            group.is_resolving = True
        try:
            return await expanded(lambda: self._unknown(beat, resolves_all=resolves_all), self._topics)
        finally:
            if group is not None and resolves_all:
                group.is_resolving = False

    def _unknown(self, beat: ConsumerHeartbeat, *, resolves_all: bool) -> Collection[str]:
        group, own = self.groups.get(beat.group_id), beat.topic_regex
        if beat.member_epoch != JOIN_EPOCH and (is_leaving(beat) or group is None or beat.member_id not in group.members):
            return ()
        if group is None:
            return [own] if own else ()
        known = () if resolves_all else group.regexes
        wanted = dict.fromkeys(group.regex_subscribers if resolves_all else ())
        if own and own not in known:
            wanted[own] = None
        return wanted

    def heartbeat(
        self, beat: ConsumerHeartbeat, now_ms: int, expansions: Expansions, upgraded: ConsumerGroup | None = None
    ) -> Result[ConsumerHeartbeatAnswer]:
        """Handle a validated request. ``upgraded`` is the consumer group that a classic group is about to become.

        Raises `KafkaError`.
        """
        group = self.groups.get(beat.group_id) or upgraded
        if is_leaving(beat):
            if group is None:
                raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {beat.group_id} not found.")
            return leave(group, beat, partial(self._fenced, group, now_ms=now_ms))
        if beat.member_epoch == JOIN_EPOCH:
            if not beat.member_id:
                beat.member_id = self._new_id()
            group = ConsumerGroup(beat.group_id) if group is None else group
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Consumer group {beat.group_id} not found.")
        return heartbeat(group, beat, self._config_of(group.group_id), self._topics, now_ms, expansions)

    def _fenced(self, group: ConsumerGroup, member_ids: list[str], now_ms: int) -> Result[None]:
        """Remove members. If none of the others uses the consumer protocol, the group may become a classic one."""
        downgrade = self._downgrading.without(group, member_ids, now_ms)
        if downgrade is not None:
            return downgrade
        return Result(
            None, records=fenced(group, member_ids, self._topics), effects=[AwaitNextConsumerDeadline(group.group_id, now_ms)]
        )

    def remove(self, group_id: str, leaving: list[tuple[str, str | None]], now_ms: int) -> Result[list[Code]]:
        """Remove the members of a LeaveGroup from a client or admin. Each is named by id or instance id, and gets its own error
        code."""
        group = self.groups[group_id]
        codes: list[Code] = []
        removed: dict[str, None] = {}
        for member_id, instance_id in leaving:
            known = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
            if known is None:
                codes.append(Code.UNKNOWN_MEMBER_ID)
            elif member_id not in ("", known.member_id):
                codes.append(Code.FENCED_INSTANCE_ID)
            else:
                codes.append(Code.NONE)
                removed[known.member_id] = None
        left = self._fenced(group, list(removed), now_ms) if removed else Result(None)
        return Result(codes, records=left.records, effects=left.effects)

    # members of the classic protocol

    def join(self, request: JoinRequest, now_ms: int) -> Result[None]:
        """Handle JoinGroup for a group with members. The response is sent with ``request.waiter``. As in Kafka, an error has no
        member id."""
        group = self.groups[request.group_id]
        config = self._config_of(group.group_id)
        try:
            return classic_members.join(group, request, config, self._topics, now_ms, self._new_id, self._downgrading)
        except KafkaError as error:
            return Result(None, effects=[AnswerMember(request.waiter, JoinAnswer(code=error.code))])

    def sync(self, request: SyncRequest, now_ms: int) -> SyncAnswer:
        """Handle SyncGroup. Raises `KafkaError`."""
        group = self.groups[request.group_id]
        try:
            return classic_members.sync(group, request, self._topics, now_ms)
        finally:
            self._deadlines.arm(group)

    def classic_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """Handle Heartbeat. Raises `KafkaError`."""
        group = self.groups[group_id]
        try:
            classic_members.heartbeat(group, generation, member_id, instance_id, now_ms)
        finally:
            self._deadlines.arm(group)

    # time

    def tick(self, now_ms: int, max_batch_bytes: int) -> Iterator[tuple[str, Result[None]]]:
        """Fence late members: from each group as many as fit into a batch, and the others at the next tick.

        Each result must be carried out before the next is requested. If the log refuses a group's records, the group does not
        change, and is checked again after `deadlines.RETRY_MS`.
        """
        for group in self._deadlines.due(now_ms):
            late = group.late_members(now_ms)[:MAX_FENCED_MEMBERS]
            if not late:
                self._deadlines.fix(group, group.next_deadline_ms())
                continue
            some = first_that_fit(late, group.tombstones_of, max_batch_bytes)
            yield group.group_id, self._fenced(group, some, now_ms)

    def topic_changed(self, topic: str) -> None:
        """Make groups that may subscribe to a topic check their topics at the next heartbeat, because it was created, grown or
        deleted."""
        for group in self.groups.values():
            if topic in group.subscribers or group.regex_subscribers:
                group.is_stale = True

    # effects

    def apply(self, effect: Effect) -> None:
        """Change state in memory that is not logged, once the decision's records are in the log."""
        match effect:
            case ConsumerMemberSeen(group_id=group_id, member_id=member_id, now_ms=now_ms):
                group = self.groups[group_id]
                heard_of = group.members.get(member_id)
                # A static member of a group that was just converted to a consumer group may have been replaced already.
                if heard_of is not None:
                    self._extend_session(group, heard_of, now_ms)
                self._deadlines.arm(group)
            case ClassicMemberJoined(group_id=group_id, member_id=member_id, now_ms=now_ms, sync_timeout_ms=timeout_ms):
                group = self.groups[group_id]
                self._extend_session(group, group.members[member_id], now_ms)
                group.await_sync(member_id, now_ms + timeout_ms)
                self._deadlines.arm(group)
            case ConsumerGroupTopicsRead(group_id=group_id):
                self.groups[group_id].is_stale = False
            case AwaitNextConsumerDeadline(group_id=group_id, now_ms=now_ms):
                group = self.groups[group_id]
                self._deadlines.fix_after(group, now_ms, group.next_deadline_ms())
            case _:
                raise TypeError(f"not an effect on consumer groups: {effect!r}")

    def _extend_session(self, group: ConsumerGroup, member: ConsumerGroupMember, now_ms: int) -> None:
        """Restart the member's session. A member of the classic protocol has its own session timeout."""
        classic = member.classic
        timeout_ms = self._config_of(group.group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
        group.extend_session(member.member_id, now_ms + timeout_ms)

    # replay

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> tuple[str, bool]:
        """Replay one record. Returns the group's id, and whether the record removed the group. Raises `DecodeError`."""
        read = records.RECORDS.read_key(kind, key)
        group_id: str = read.group_id
        if kind == records.PARTITION_METADATA:
            return group_id, False
        group = self.groups.get(group_id)
        if value is None:
            if group is None:
                return group_id, kind == records.RECORDS.metadata
            return group_id, self._remove(group, kind, read)
        group = ConsumerGroup(group_id) if group is None else group
        self._take(group, kind, read, value, now_ms)
        self.groups[group_id] = group
        self._deadlines.arm(group)
        return group_id, False

    def _take(self, group: ConsumerGroup, kind: int, key: Any, value: bytes, now_ms: int) -> None:
        if kind == records.RECORDS.metadata:
            group.group_epoch, group.metadata_hash = records.read_epoch(value)
        elif kind == records.RECORDS.target_metadata:
            group.assignment_epoch, group.assigned_ms = read_target_epoch(value)
        elif kind == records.RECORDS.target_member:
            group.targets[key.member_id] = read_target(value)
        elif kind == records.REGEX:
            group.regexes[key.regular_expression] = records.read_regex(value)
        else:
            fields = records.read_member(value) if kind == records.RECORDS.member else records.read_current(value)
            known = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
            member = msgspec.structs.replace(known, **fields)
            group.put(member)
            if member.member_id not in group.sessions_ms:
                # The member is new, or the broker has started, which gives every member a new session.
                group.extend_session(member.member_id, now_ms + self._config_of(group.group_id).session_timeout_ms)
            if kind == records.RECORDS.current or known.rebalance_timeout_ms == UNKNOWN_TIMEOUT_MS:
                # After compaction, the member's metadata record with its rebalance timeout may follow its assignment record.
                group.time_revocation(member, now_ms)

    def _remove(self, group: ConsumerGroup, kind: int, key: Any) -> bool:
        """Replay a tombstone. Returns whether it removed the group."""
        if kind == records.RECORDS.metadata:
            del self.groups[group.group_id]
            return True
        if kind == records.RECORDS.target_metadata:
            group.assignment_epoch, group.assigned_ms = NO_TARGET_EPOCH, 0
        elif kind == records.RECORDS.target_member:
            group.targets.pop(key.member_id, None)
        elif kind == records.RECORDS.member:
            group.remove(key.member_id)
        elif kind == records.REGEX:
            group.regexes.pop(key.regular_expression, None)
        elif key.member_id in group.members:
            member = group.members[key.member_id]
            group.put(msgspec.structs.replace(member, member_epoch=-1, previous_epoch=-1, assigned={}, revoking={}))
            group.revocations_ms.pop(key.member_id, None)
        return False
