"""Joining, syncing, heartbeats and leaving in classic groups (GroupMetadataManager.classicGroup* of Kafka).

A command that may write a record changes a draft of the group, which replaces the group once the record is in the log. A command
that never writes a record changes the group at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ottla.coordinator.group.classic.effects import BeginGeneration, ExtendSession, ReplaceGroup, SetGroupTimer
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from ottla.coordinator.group.classic.rebalance import (
    after_removal,
    drop,
    expire,
    join_answer,
    rebalance_or_complete,
    supersede_join,
)
from ottla.coordinator.group.deadlines import Deadlines
from ottla.coordinator.group.records import group_record
from ottla.coordinator.group.requests import GroupConfig, JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from ottla.coordinator.result import AnswerMember, Effect, Result, Waiter
from ottla.protocol.errors import Code, KafkaError

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Time in ms that a new member may wait in its first rebalance. It replaces the session timeout, as the member sends no
heartbeats."""
MAX_MEMBER_PROTOCOLS = 1_000
"""Maximum number of assignors that a member may offer. Clients offer a handful."""
MAX_MEMBER_PREFIX_CHARS = 1_000
"""Maximum number of characters of the client id or instance id in a generated member id, which must fit into a string of every
request version."""

Out = Result[None]


class ClassicMembership:
    """All classic groups of a shard. ``new_id`` generates the random part of a member id."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self._deadlines = Deadlines(self.groups)
        self._new_id = new_id

    def _put(self, group: ClassicGroup) -> None:
        """Store a group, or a draft that replaces it. A group with neither members nor log records is removed."""
        if group.is_forgettable:
            self.groups.pop(group.group_id, None)
        else:
            self.groups[group.group_id] = group
            self._deadlines.arm(group)

    # handling JoinGroup

    def check_join(self, request: JoinRequest) -> None:
        """Raise INVALID_SESSION_TIMEOUT or INCONSISTENT_GROUP_PROTOCOL for a request that no group of any type accepts."""
        config = self.config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            raise KafkaError(Code.INVALID_SESSION_TIMEOUT)
        if len(request.protocols) > MAX_MEMBER_PROTOCOLS:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)

    def join(self, request: JoinRequest, now_ms: int) -> Out:
        """Handle JoinGroup. ``request.waiter`` sends the response, now or when all members have joined. Raises `KafkaError`."""
        self.check_join(request)
        group = self.groups.get(request.group_id)
        is_new = group is None
        if group is None:
            if request.member_id:
                raise KafkaError(Code.UNKNOWN_MEMBER_ID)
            group = ClassicGroup(request.group_id, state_since_ms=now_ms)
        if not group.accepts(request.protocol_type, {name for name, _ in request.protocols}):
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        out: Out = Result(None)
        if request.member_id:
            self._join_known(group, request, now_ms, out)
            self._put(group)
            return out
        self._check_size(group, request)
        previous = None if request.instance_id is None else group.static_members.get(request.instance_id)
        if previous is not None:
            draft = group.copied()
            self._replace_static(draft, previous, request, now_ms, out)
            out.effects.append(ReplaceGroup(draft))
            return out
        self._join_new(group, request, now_ms, out)
        if is_new:
            # An effect stores the new group, because an empty group of another type may have to be removed from the log first.
            out.effects.append(ReplaceGroup(group))
        else:
            self._put(group)
        return out

    def _check_size(self, group: ClassicGroup, request: JoinRequest) -> None:
        replaces = request.instance_id is not None and request.instance_id in group.static_members
        if not replaces and len(group.members) + len(group.pending) >= self.config.max_size:
            raise KafkaError(Code.GROUP_MAX_SIZE_REACHED)

    def _join_new(self, group: ClassicGroup, request: JoinRequest, now_ms: int, out: Out) -> None:
        member_id = self._member_id(request.client_id if request.instance_id is None else request.instance_id)
        if request.instance_id is None and request.needs_known_id:
            group.hand_out(member_id, now_ms + request.session_timeout_ms)
            out.effects.append(AnswerMember(request.waiter, JoinAnswer(code=Code.MEMBER_ID_REQUIRED, member_id=member_id)))
        else:
            self._add(group, member_id, request, now_ms, out)

    def _member_id(self, name: str | None) -> str:
        return f"{(name or '')[:MAX_MEMBER_PREFIX_CHARS]}-{self._new_id()}"

    def _join_known(self, group: ClassicGroup, request: JoinRequest, now_ms: int, out: Out) -> None:
        member_id = request.member_id
        if member_id in group.pending:
            self._add(group, member_id, request, now_ms, out)
            return
        member = group.check_member(member_id, request.instance_id)
        changes_nothing = member.protocols == request.protocols
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._rejoin(group, member, request, now_ms, out)
        elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
            if changes_nothing:
                # The member repeats its JoinGroup because the response was lost, so no new generation begins.
                out.effects.append(AnswerMember(request.waiter, join_answer(group, member_id)))
                group.extend_session(member, now_ms)
            else:
                self._rejoin(group, member, request, now_ms, out)
        elif group.state is ClassicGroupState.STABLE:
            if member_id == group.leader or not changes_nothing:
                self._rejoin(group, member, request, now_ms, out)
            else:
                out.effects.append(AnswerMember(request.waiter, join_answer(group, member_id, with_members=False)))
                group.extend_session(member, now_ms)
        else:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)

    @staticmethod
    def _member(member_id: str, request: JoinRequest) -> ClassicGroupMember:
        return ClassicGroupMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
        )

    def _add(self, group: ClassicGroup, member_id: str, request: JoinRequest, now_ms: int, out: Out) -> None:
        group.add(self._member(member_id, request))
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            group.has_newcomers = True
        group.join_waiters[member_id] = request.waiter
        group.deadlines_ms[member_id] = now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        rebalance_or_complete(group, now_ms, self.config.initial_rebalance_delay_ms, out)

    @staticmethod
    def _renewed(member: ClassicGroupMember, request: JoinRequest, member_id: str) -> ClassicGroupMember:
        return msgspec.structs.replace(
            member,
            member_id=member_id,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )

    def _rejoin(self, group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest, now_ms: int, out: Out) -> None:
        supersede_join(group, member.member_id, out)
        group.update(self._renewed(member, request, member.member_id))
        group.join_waiters[member.member_id] = request.waiter
        rebalance_or_complete(group, now_ms, self.config.initial_rebalance_delay_ms, out)

    def _replace_static(self, group: ClassicGroup, old_id: str, request: JoinRequest, now_ms: int, out: Out) -> None:
        new_id = self._member_id(request.instance_id)
        fenced = Code.FENCED_INSTANCE_ID
        for waiting, answer in (
            (group.join_waiters, JoinAnswer(code=fenced, member_id=old_id)),
            (group.sync_waiters, SyncAnswer(code=fenced)),
        ):
            waiter = waiting.pop(old_id, None)
            if waiter is not None:
                out.effects.append(AnswerMember(waiter, answer))
        was_leader, before = group.leader == old_id, group.select_protocol()
        member = self._renewed(group.members[old_id], request, new_id)
        group.replace(old_id, member)
        group.extend_session(member, now_ms)
        if group.state is ClassicGroupState.STABLE and group.select_protocol() == before:
            out.records.append(group_record(group, now_ms))
            skips = was_leader and request.supports_skip_assignment
            reply = join_answer(group, new_id, with_members=skips)
            reply.skip_assignment = skips
            if was_leader and not skips:
                reply.leader = old_id
            out.effects.append(AnswerMember(request.waiter, reply))
            return
        group.join_waiters[new_id] = request.waiter
        rebalance_or_complete(group, now_ms, self.config.initial_rebalance_delay_ms, out)

    # handling SyncGroup

    def sync(self, request: SyncRequest, now_ms: int) -> Out:
        """Handle SyncGroup. ``request.waiter`` sends the response, now or after the leader's SyncGroup. Raises `KafkaError`."""
        member_id, waiter = request.member_id, request.waiter
        group, member = self._active(request.group_id, request.generation, member_id, request.instance_id)
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        if request.protocol is not None and request.protocol != group.protocol:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        out: Out = Result(None)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise KafkaError(Code.REBALANCE_IN_PROGRESS)
        if group.state is ClassicGroupState.STABLE:
            group.extend_session(member, now_ms)
            out.effects.append(AnswerMember(waiter, self._synced(group, group.assignments.get(member_id, b""))))
            self._put(group)
        elif group.state is not ClassicGroupState.COMPLETING_REBALANCE:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        elif member_id == group.leader:
            self._assign(group, request.assignments, waiter, now_ms, out)
        else:
            group.pending_sync.discard(member_id)
            overtaken = group.sync_waiters.pop(member_id, None)
            if overtaken is not None:
                # The member repeats its SyncGroup. Respond to the first SyncGroup, too: in Kafka its connection waits forever.
                out.effects.append(AnswerMember(overtaken, SyncAnswer(code=Code.REBALANCE_IN_PROGRESS)))
            group.sync_waiters[member_id] = waiter
        return out

    def _assign(self, group: ClassicGroup, assignments: dict[str, bytes], waiter: Waiter, now_ms: int, out: Out) -> None:
        """Handle the leader's assignment. If the log rejects the record, the other members still wait, and the leader may retry."""
        waiting = {**group.sync_waiters, group.leader or "": waiter}
        out.records.append(group_record(group, now_ms, assignments))
        out.effects.append(BeginGeneration(group.group_id, tuple(waiting), now_ms))
        out.effects += [
            AnswerMember(one, self._synced(group, assignments.get(member_id, b""))) for member_id, one in waiting.items()
        ]

    @staticmethod
    def _synced(group: ClassicGroup, assignment: bytes) -> SyncAnswer:
        return SyncAnswer(code=Code.NONE, protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)

    def _active(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None
    ) -> tuple[ClassicGroup, ClassicGroupMember]:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(Code.ILLEGAL_GENERATION)
        return group, member

    # handling Heartbeat and LeaveGroup

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> None:
        group = self.groups.get(group_id)
        if group is not None and member_id in group.pending:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        group, member = self._active(group_id, generation, member_id, instance_id)
        if group.state is ClassicGroupState.EMPTY:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        group.extend_session(member, now_ms)
        self._put(group)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise KafkaError(Code.REBALANCE_IN_PROGRESS)

    def leave(self, group_id: str, leaving: list[tuple[str, str | None]], now_ms: int) -> Result[list[Code]]:
        """Remove members, each named by member id and instance id. A static member may be named by its instance id alone."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        draft, out = group.copied(), Out(None)
        codes = [self._leave(draft, member_id, instance_id, out) for member_id, instance_id in leaving]
        if Code.NONE in codes:
            after_removal(draft, now_ms, out)
            out.effects.append(ReplaceGroup(draft))
        return Result(codes, records=out.records, effects=out.effects)

    def _leave(self, group: ClassicGroup, member_id: str, instance_id: str | None, out: Out) -> Code:
        if group.pending.pop(member_id, None) is not None:
            return Code.NONE
        try:
            if not member_id and instance_id is not None:
                member_id = group.static_members.get(instance_id, "")
            group.check_member(member_id, instance_id)
        except KafkaError as error:
            return error.code
        drop(group, [member_id], out)
        return Code.NONE

    # handling expired deadlines

    def tick(self, now_ms: int) -> Iterator[tuple[str, Out]]:
        """Handle expired deadlines, group by group. Each result must be carried out before the next is requested.

        If the log rejects a group's record, the group does not change, and is checked again after `deadlines.RETRY_MS`.
        """
        for group in self._deadlines.due(now_ms):
            following = group.next_deadline_ms(now_ms)
            if following is None or following > now_ms:
                self._deadlines.fix(group, following)
                continue
            draft, out = group.copied(), Out(None)
            expire(draft, now_ms, out)
            following = draft.next_deadline_ms(now_ms)
            wake_ms = None if following is None else max(following, now_ms + 1)
            # ``wake_ms``, computed from all deadlines of the draft, replaces ``due_ms``.
            draft.due_ms = None
            out.effects += [ReplaceGroup(draft), SetGroupTimer(draft.group_id, wake_ms)]
            yield group.group_id, out

    def dismissals(self) -> list[Effect]:
        """Respond with NOT_COORDINATOR to every parked request, because this broker no longer coordinates the groups."""
        gone = Code.NOT_COORDINATOR
        effects: list[Effect] = []
        for group in self.groups.values():
            effects += [AnswerMember(one, JoinAnswer(code=gone, member_id=m)) for m, one in group.join_waiters.items()]
            effects += [AnswerMember(one, SyncAnswer(code=gone)) for one in group.sync_waiters.values()]
        return effects

    # applying effects and replaying records

    def apply(self, effect: Effect) -> None:
        """Change state in memory after the decision's records are in the log."""
        match effect:
            case ExtendSession(group_id=group_id, member_id=member_id, now_ms=now_ms):
                self._extend_session(group_id, member_id, now_ms)
            case ReplaceGroup(group=draft):
                self._put(draft)
            case SetGroupTimer(group_id=group_id, wake_ms=wake_ms):
                timed = self.groups.get(group_id)
                if timed is not None:
                    self._deadlines.fix(timed, wake_ms)
            case BeginGeneration(group_id=group_id, member_ids=member_ids, now_ms=now_ms):
                group = self.groups[group_id]
                group.sync_waiters.clear()
                for member_id in member_ids:
                    group.extend_session(group.members[member_id], now_ms)
                self._put(group)
            case _:
                raise TypeError(f"not an effect on groups: {effect!r}")

    def _extend_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is not None and member is not None:
            group.deadlines_ms[member_id] = max(group.deadlines_ms.get(member_id, 0), now_ms + member.session_timeout_ms)

    def replay_group(self, group_id: str, loaded: ClassicGroup | None) -> None:
        """Replay a group's record. If the group in memory has the same generation and members, take only the record's
        assignments."""
        if loaded is None:
            self.groups.pop(group_id, None)
            return
        current = self.groups.get(group_id)
        if current is None or current.generation != loaded.generation or current.members.keys() != loaded.members.keys():
            self._put(loaded)
            return
        current.assignments = loaded.assignments
        if current.state is ClassicGroupState.COMPLETING_REBALANCE:
            current.move(ClassicGroupState.STABLE, loaded.state_since_ms)
            current.pending_sync.clear()
            current.sync_deadline_ms = None
