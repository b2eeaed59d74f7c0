"""All groups of one modern protocol in a shard: the replay of their records, and their deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from ottla.coordinator.group.deadlines import MAX_FENCED_MEMBERS, Deadlines
from ottla.coordinator.group.epochs import NO_TARGET_EPOCH
from ottla.coordinator.group.modern.effects import AwaitNextDeadline, MemberSeen, ModernEffect
from ottla.coordinator.group.modern.group import (
    UNKNOWN_TIMEOUT_MS,
    ModernGroup,
    earliest_deadline_ms,
    extend_session,
    late_members,
    time_revocation,
)
from ottla.coordinator.group.modern.records import ModernRecords, read_target_epoch
from ottla.coordinator.result import Result, first_that_fit
from ottla.protocol.errors import Code, KafkaError

G = TypeVar("G", bound=ModernGroup)


class SessionConfig(Protocol):
    @property
    def session_timeout_ms(self) -> int: ...


class ModernProtocol(NamedTuple, Generic[G]):
    """The part of the replay that is different for each protocol.

    ``read_member`` and ``read_current`` decode the fields of a member in its two records. ``unassigned`` are a member's fields
    after the tombstone of its assignment. ``is_revoking``: whether a member must give up a part of its assignment before a
    deadline; None if this protocol has no such deadline.
    """

    records: ModernRecords
    new_group: Callable[[str], G]
    new_member: Callable[[str], Any]
    read_member: Callable[[bytes], dict[str, Any]]
    read_current: Callable[[bytes], dict[str, Any]]
    read_target: Callable[[bytes], Any]
    unassigned: Mapping[str, Any]
    is_revoking: Callable[[Any], bool] | None = None
    next_deadline_ms: Callable[[G], int | None] = earliest_deadline_ms


class ModernGroups(Generic[G]):
    """The groups of one protocol. `ConsumerGroups`, `StreamsGroups` and `ShareGroups` each use one instance.

    ``config_of`` returns the current configuration of a group. ``decide`` returns the decisions about a group that has an expired
    deadline, given its late members that fit into a batch.
    """

    def __init__(
        self,
        protocol: ModernProtocol[G],
        config_of: Callable[[str], SessionConfig],
        decide: Callable[[G, list[str], int], Iterator[Result[None]]],
    ) -> None:
        self.groups: dict[str, G] = {}
        self.deadlines = Deadlines(self.groups)
        self._protocol = protocol
        self._config_of = config_of
        self._decide = decide

    def group(self, group_id: str, name: str = "Group") -> G:
        """Return the group, or raise GROUP_ID_NOT_FOUND. ``name`` is the first word of the error message."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"{name} {group_id} not found.")
        return group

    # fencing late members, extending sessions

    def tick(self, now_ms: int, max_batch_bytes: int) -> Iterator[tuple[str, Result[None]]]:
        """Yield for each group a decision that fences late members, as many as fit into a batch. The next tick fences more.

        The caller must carry out each `Result` before it requests the next. If the log rejects a group's records, the group does
        not change, and is checked again after `deadlines.RETRY_MS`.
        """
        for group in self.deadlines.due(now_ms):
            late = first_that_fit(late_members(group, now_ms)[:MAX_FENCED_MEMBERS], group.tombstones_of, max_batch_bytes)
            has_decision = False
            for result in self._decide(group, late, now_ms):
                has_decision = True
                yield group.group_id, result
            if not has_decision:
                self.deadlines.fix(group, self._protocol.next_deadline_ms(group))

    def apply(self, effect: ModernEffect) -> None:
        """Change state in memory after the decision's records are in the log."""
        group = self.groups[effect.group_id]
        match effect:
            case MemberSeen(member_id=member_id, now_ms=now_ms, timeout_ms=timeout_ms):
                # A group that was just converted may lack this member: a joining static member may have replaced it.
                if member_id in group.members:
                    self._extend_session(group, member_id, now_ms, timeout_ms)
                self.deadlines.arm(group)
            case AwaitNextDeadline(now_ms=now_ms):
                self.deadlines.fix_after(group, now_ms, self._protocol.next_deadline_ms(group))
            case _:
                raise TypeError(f"not an effect on groups of this protocol: {effect!r}")

    def _extend_session(self, group: G, member_id: str, now_ms: int, timeout_ms: int | None = None) -> None:
        if timeout_ms is None:
            timeout_ms = self._config_of(group.group_id).session_timeout_ms
        extend_session(group, member_id, now_ms + timeout_ms)

    # replaying records

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> tuple[str, bool]:
        """Replay one record. Returns the group's id, and whether the record removed the group. Raises `DecodeError`."""
        records = self._protocol.records
        read = records.read_key(kind, key)
        group_id: str = read.group_id
        group = self.groups.get(group_id)
        if value is None:
            if group is not None:
                self._remove(group, kind, read, now_ms)
            return group_id, kind == records.metadata
        group = self._protocol.new_group(group_id) if group is None else group
        self._take(group, kind, read, value, now_ms)
        self.groups[group_id] = group
        self.deadlines.arm(group)
        return group_id, False

    def _take(self, group: G, kind: int, key: Any, value: bytes, now_ms: int) -> None:
        protocol, records = self._protocol, self._protocol.records
        if kind == records.target_metadata:
            group.assignment_epoch, group.assigned_ms = read_target_epoch(value)
        elif kind == records.target_member:
            group.targets[key.member_id] = protocol.read_target(value)
        elif kind in (records.member, records.current):
            fields = protocol.read_member(value) if kind == records.member else protocol.read_current(value)
            known = group.members.get(key.member_id) or protocol.new_member(key.member_id)
            member = msgspec.structs.replace(known, **fields)
            group.put(member)
            if member.member_id not in group.sessions_ms:
                # Start a session, because the member is new, or the broker has started.
                self._extend_session(group, member.member_id, now_ms)
            revokes = protocol.is_revoking
            if revokes is not None and (kind == records.current or known.rebalance_timeout_ms == UNKNOWN_TIMEOUT_MS):
                # After compaction, the member's metadata record with its rebalance timeout may follow its assignment record.
                time_revocation(group, member, now_ms, is_revoking=revokes(member))
        else:
            group.replay(kind, key, value, now_ms)

    def _remove(self, group: G, kind: int, key: Any, now_ms: int) -> None:
        records = self._protocol.records
        if kind == records.metadata:
            del self.groups[group.group_id]
        elif kind == records.target_metadata:
            group.assignment_epoch, group.assigned_ms = NO_TARGET_EPOCH, 0
        elif kind == records.target_member:
            group.targets.pop(key.member_id, None)
        elif kind == records.member:
            group.remove(key.member_id)
        elif kind != records.current:
            group.replay(kind, key, None, now_ms)
        elif key.member_id in group.members:
            member = group.members[key.member_id]
            group.put(msgspec.structs.replace(member, member_epoch=-1, previous_epoch=-1, **self._protocol.unassigned))
            if self._protocol.is_revoking is not None:
                time_revocation(group, member, now_ms, is_revoking=False)
