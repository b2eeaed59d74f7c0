"""Joining, syncing, heartbeats and leaving in classic groups (GroupMetadataManager.classicGroup* of Kafka).

Soft state (who waits, which deadline) changes here; what a restart must know goes into the group's record.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.group.group import Group, GroupState, Member
from coordinator.group.records import group_record
from coordinator.group.requests import GroupConfig, JoinAnswer, JoinRequest, SyncAnswer
from coordinator.result import Result, Waiter
from protocol.errors import Code, KafkaError

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
MAX_MEMBER_PREFIX_CHARS = 1_000
"""Of what a client calls itself, in the member id that it is given: the id must be a string that every version can tell."""

Out = Result[None]


class Membership:
    """All groups of a shard. ``new_id`` makes the random part of a member id."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.groups: dict[str, Group] = {}
        self._new_id = new_id

    # JoinGroup

    def join(self, request: JoinRequest, now_ms: int) -> Out:
        """Answers through ``request.waiter``, now or when the group is complete. Raises `KafkaError`."""
        config = self.config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            raise KafkaError(Code.INVALID_SESSION_TIMEOUT)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise KafkaError(Code.UNKNOWN_MEMBER_ID)
            group = Group(request.group_id, state_since_ms=now_ms)
        if not group.accepts(request.protocol_type, {name for name, _ in request.protocols}):
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        out: Out = Result(None)
        if request.member_id:
            self._join_known(group, request, now_ms, out)
        else:
            self._check_size(group, request)
            self.groups[request.group_id] = group
            self._join_new(group, request, now_ms, out)
        return out

    def _check_size(self, group: Group, request: JoinRequest) -> None:
        replaces = request.instance_id is not None and request.instance_id in group.static_members
        if not replaces and len(group.members) + len(group.pending) >= self.config.max_size:
            raise KafkaError(Code.GROUP_MAX_SIZE_REACHED)

    def _join_new(self, group: Group, request: JoinRequest, now_ms: int, out: Out) -> None:
        if request.instance_id is not None:
            member_id = self._member_id(request.instance_id)
            previous = group.static_members.get(request.instance_id)
            if previous is not None:
                self._replace_static(group, previous, member_id, request, now_ms, out)
                return
        else:
            member_id = self._member_id(request.client_id)
            if request.needs_known_id:
                group.pending[member_id] = now_ms + request.session_timeout_ms
                out.replies.append((request.waiter, JoinAnswer(Code.MEMBER_ID_REQUIRED, member_id=member_id)))
                return
        self._add(group, member_id, request, now_ms, out)

    def _member_id(self, name: str) -> str:
        return f"{name[:MAX_MEMBER_PREFIX_CHARS]}-{self._new_id()}"

    def _join_known(self, group: Group, request: JoinRequest, now_ms: int, out: Out) -> None:
        member_id = request.member_id
        if member_id in group.pending:
            self._add(group, member_id, request, now_ms, out)
            return
        member = group.check_member(member_id, request.instance_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._rejoin(group, member, request, now_ms, out)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            if member.protocols == request.protocols:
                # It asks again because its answer was lost: the generation stands.
                out.replies.append((request.waiter, self._joined(group, member)))
                member.deadline_ms = now_ms + member.session_timeout_ms
            else:
                self._rejoin(group, member, request, now_ms, out)
        elif group.state is GroupState.STABLE:
            if member.member_id == group.leader or member.protocols != request.protocols:
                self._rejoin(group, member, request, now_ms, out)
            else:
                out.replies.append((request.waiter, self._joined(group, member, with_members=False)))
                member.deadline_ms = now_ms + member.session_timeout_ms
        else:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)

    def _add(self, group: Group, member_id: str, request: JoinRequest, now_ms: int, out: Out) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocol_type,
            request.protocols,
            join_waiter=request.waiter,
            deadline_ms=now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS,
        )
        group.add(member)
        self._rebalance_or_complete(group, now_ms, out)

    def _rejoin(self, group: Group, member: Member, request: JoinRequest, now_ms: int, out: Out) -> None:
        self._supersede_join(member, out)
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.join_waiter = request.waiter
        self._rebalance_or_complete(group, now_ms, out)

    @staticmethod
    def _supersede_join(member: Member, out: Out) -> None:
        if member.join_waiter is not None:
            out.replies.append((member.join_waiter, JoinAnswer(Code.UNKNOWN_MEMBER_ID, member_id=member.member_id)))
            member.join_waiter = None

    def _replace_static(self, group: Group, old_id: str, new_id: str, request: JoinRequest, now_ms: int, out: Out) -> None:
        """A static member has restarted: it takes over its predecessor's place, who is fenced from now on."""
        member = group.members[old_id]
        fenced = Code.FENCED_INSTANCE_ID
        if member.join_waiter is not None:
            out.replies.append((member.join_waiter, JoinAnswer(fenced, member_id=old_id)))
        if member.sync_waiter is not None:
            out.replies.append((member.sync_waiter, SyncAnswer(fenced)))
        member.join_waiter = member.sync_waiter = None
        was_leader = group.leader == old_id
        # In place, so that the order of members, which assignors look at, stays.
        group.members = {(new_id if key == old_id else key): m for key, m in group.members.items()}
        group.pending_sync.discard(old_id)
        member.member_id = new_id
        if request.instance_id is not None:
            group.static_members[request.instance_id] = new_id
        if was_leader:
            group.leader = new_id
        before = group.select_protocol()
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.deadline_ms = now_ms + member.session_timeout_ms
        if group.state is GroupState.STABLE and group.select_protocol() == before:
            record = group_record(group, now_ms, {m.member_id: m.assignment for m in group.members.values()})
            out.records.append(record)
            answer = self._joined(group, member, with_members=was_leader and request.supports_skip_assignment)
            if was_leader:
                answer.skip_assignment = request.supports_skip_assignment
                if not request.supports_skip_assignment:
                    answer.leader = old_id
            out.replies.append((request.waiter, answer))
            return
        member.join_waiter = request.waiter
        self._rebalance_or_complete(group, now_ms, out)

    def _joined(self, group: Group, member: Member, *, with_members: bool = True) -> JoinAnswer:
        is_leader = member.member_id == group.leader
        return JoinAnswer(
            Code.NONE,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or "",
            member.member_id,
            [(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values()]
            if is_leader and with_members
            else [],
        )

    # rebalance

    def _rebalance_or_complete(self, group: Group, now_ms: int, out: Out) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            self._prepare_rebalance(group, now_ms, out)
        self._maybe_complete_join(group, now_ms, out)

    def _prepare_rebalance(self, group: Group, now_ms: int, out: Out) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.sync_waiter is not None:
                    out.replies.append((member.sync_waiter, SyncAnswer(Code.REBALANCE_IN_PROGRESS)))
                    member.sync_waiter = None
                    member.deadline_ms = now_ms + member.session_timeout_ms
        group.pending_sync.clear()
        group.sync_deadline_ms = None
        group.is_initial_rebalance = group.state is GroupState.EMPTY
        delay = self.config.initial_rebalance_delay_ms if group.is_initial_rebalance else group.rebalance_timeout_ms
        group.rebalance_deadline_ms = now_ms + delay
        group.move(GroupState.PREPARING_REBALANCE, now_ms)

    def _maybe_complete_join(self, group: Group, now_ms: int, out: Out) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE or not group.has_all_joined:
            return
        if group.is_initial_rebalance and group.rebalance_deadline_ms is not None and now_ms < group.rebalance_deadline_ms:
            return
        self._complete_join(group, now_ms, out)

    def _complete_join(self, group: Group, now_ms: int, out: Out) -> None:
        for member in [m for m in group.members.values() if m.join_waiter is None and m.instance_id is None]:
            group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members that have not come back: they keep their places until their sessions end.
            group.rebalance_deadline_ms = now_ms + group.rebalance_timeout_ms
            return
        group.rebalance_deadline_ms = None
        group.is_initial_rebalance = False
        group.generation += 1
        if not group.members:
            group.protocol = group.leader = None
            group.move(GroupState.EMPTY, now_ms)
            out.records.append(group_record(group, now_ms, {}))
            return
        group.protocol = group.select_protocol()
        group.move(GroupState.COMPLETING_REBALANCE, now_ms)
        group.pending_sync = set(group.members)
        group.sync_deadline_ms = now_ms + group.rebalance_timeout_ms
        for member in group.members.values():
            member.deadline_ms = now_ms + member.session_timeout_ms
            if member.join_waiter is not None:
                out.replies.append((member.join_waiter, self._joined(group, member)))
                member.join_waiter = None

    # SyncGroup

    def sync(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol: str | None,
        assignments: dict[str, bytes],
        waiter: Waiter,
        now_ms: int,
    ) -> Out:
        group, member = self._active(group_id, generation, member_id, instance_id)
        if protocol_type is not None and protocol_type != group.protocol_type:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        if protocol is not None and protocol != group.protocol:
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL)
        out: Out = Result(None)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(Code.REBALANCE_IN_PROGRESS)
        if group.state is GroupState.STABLE:
            member.deadline_ms = now_ms + member.session_timeout_ms
            out.replies.append((waiter, self._synced(group, member.assignment)))
        elif group.state is GroupState.COMPLETING_REBALANCE:
            group.pending_sync.discard(member_id)
            member.sync_waiter = waiter
            if member_id == group.leader:
                self._assign(group, assignments, now_ms, out)
        else:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        return out

    def _assign(self, group: Group, assignments: dict[str, bytes], now_ms: int, out: Out) -> None:
        """The leader has decided: the record first, then every member that waits."""
        out.records.append(group_record(group, now_ms, assignments))
        for member in group.members.values():
            if member.sync_waiter is not None:
                assignment = assignments.get(member.member_id, b"")
                out.replies.append((member.sync_waiter, self._synced(group, assignment)))
                out.failed_replies.append((member.sync_waiter, SyncAnswer(Code.NOT_COORDINATOR)))
                member.sync_waiter = None
                member.deadline_ms = now_ms + member.session_timeout_ms

    @staticmethod
    def _synced(group: Group, assignment: bytes) -> SyncAnswer:
        return SyncAnswer(Code.NONE, group.protocol_type, group.protocol, assignment)

    def _active(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> tuple[Group, Member]:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(Code.ILLEGAL_GENERATION)
        return group, member

    # Heartbeat and LeaveGroup

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> None:
        group = self.groups.get(group_id)
        if group is not None and member_id in group.pending:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        group, member = self._active(group_id, generation, member_id, instance_id)
        if group.state is GroupState.EMPTY:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        member.deadline_ms = now_ms + member.session_timeout_ms
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(Code.REBALANCE_IN_PROGRESS)

    def leave(self, group_id: str, leaving: list[tuple[str, str | None]], now_ms: int) -> Result[list[Code]]:
        """Remove (member id, instance id) pairs; a static member may be named by its instance alone."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        out: Out = Result(None)
        codes = []
        gone = False
        for given_id, instance_id in leaving:
            member_id = given_id
            if member_id in group.pending:
                del group.pending[member_id]
                codes.append(Code.NONE)
                gone = True
                continue
            try:
                if not member_id and instance_id is not None:
                    member_id = group.static_members.get(instance_id, "")
                group.check_member(member_id, instance_id)
            except KafkaError as error:
                codes.append(error.code)
                continue
            self._drop(group, member_id, out)
            codes.append(Code.NONE)
            gone = True
        if gone:
            self._after_removal(group, now_ms, out)
        return Result(codes, out.records, out.replies, out.failed_replies)

    def _drop(self, group: Group, member_id: str, out: Out) -> None:
        member = group.remove(member_id)
        if member is None:
            return
        self._supersede_join(member, out)
        if member.sync_waiter is not None:
            out.replies.append((member.sync_waiter, SyncAnswer(Code.UNKNOWN_MEMBER_ID)))

    def _after_removal(self, group: Group, now_ms: int, out: Out) -> None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(group, now_ms, out)
        self._maybe_complete_join(group, now_ms, out)

    # time

    def tick(self, now_ms: int) -> Out:
        """Everything that a deadline has brought about."""
        out: Out = Result(None)
        for group in list(self.groups.values()):
            if group.members or group.pending:
                self._expire(group, now_ms, out)
        return out

    def _expire(self, group: Group, now_ms: int, out: Out) -> None:
        late = [m for m, deadline in group.pending.items() if deadline <= now_ms]
        for member_id in late:
            del group.pending[member_id]
        idle = [m.member_id for m in group.members.values() if not m.is_waiting and m.deadline_ms <= now_ms]
        if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
            group.sync_deadline_ms = None
            if group.state is GroupState.COMPLETING_REBALANCE:
                idle += [m for m in group.pending_sync if m not in idle]
        for member_id in idle:
            self._drop(group, member_id, out)
        if late or idle:
            self._after_removal(group, now_ms, out)
        deadline = group.rebalance_deadline_ms
        if group.state is GroupState.PREPARING_REBALANCE and deadline is not None and deadline <= now_ms:
            if group.is_initial_rebalance:
                self._maybe_complete_join(group, now_ms, out)
            if group.state is GroupState.PREPARING_REBALANCE and (not group.is_initial_rebalance or not group.pending):
                self._complete_join(group, now_ms, out)

    # replay

    def replay_group(self, group_id: str, loaded: Group | None) -> None:
        """Take over a group's record: on the live coordinator its assignments, after a restart all of it."""
        if loaded is None:
            self.groups.pop(group_id, None)
            return
        current = self.groups.get(group_id)
        if current is None or current.generation != loaded.generation or current.members.keys() != loaded.members.keys():
            self.groups[group_id] = loaded
            return
        for member_id, member in loaded.members.items():
            current.members[member_id].assignment = member.assignment
        if current.state is GroupState.COMPLETING_REBALANCE:
            current.move(GroupState.STABLE, loaded.state_since_ms)
            current.pending_sync.clear()
            current.sync_deadline_ms = None
