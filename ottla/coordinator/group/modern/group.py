"""The common part of consumer, streams and share groups (AbstractModernGroup and ModernGroupMember of Kafka)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from ottla.coordinator.group.deadlines import TimedGroup
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError

UNKNOWN_TIMEOUT_MS = -1
"""The rebalance timeout of a member whose metadata record was not replayed yet. Every joining member sends its timeout."""

M = TypeVar("M")


class ModernGroup(TimedGroup, Protocol):
    """A consumer, streams or share group.

    ``targets`` are the members' target assignments of ``assignment_epoch``, computed at ``assigned_ms``. ``sessions_ms`` are the
    times when the members' sessions expire.
    """

    assignment_epoch: int
    assigned_ms: int
    members: dict[str, Any]
    targets: dict[str, Any]
    sessions_ms: dict[str, int]

    @property
    def deadlines_ms(self) -> tuple[dict[str, int], ...]:
        """All deadlines by member, one dictionary for each kind of deadline."""
        ...

    def put(self, member: Any) -> None:
        """Add or replace a member."""
        ...

    def remove(self, member_id: str) -> None: ...

    def tombstones_of(self, member_id: str) -> list[LogRecord]:
        """Return the tombstones of a member that is fenced."""
        ...

    def replay(self, kind: int, key: Any, value: bytes | None, now_ms: int) -> None:
        """Replay the group's metadata, or a record or (``value`` None) tombstone of a type that only this protocol has."""
        ...


# finding and replacing members


class GroupWithMembers(Protocol[M]):
    group_id: str
    members: dict[str, M]


class GroupWithStaticMembers(GroupWithMembers[M], Protocol[M]):
    """A group that may have static members: ``static_members`` maps instance ids to member ids."""

    static_members: dict[str, str]


def known_member(group: GroupWithMembers[M], member_id: str) -> M:
    """Return the member, or raise UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def static_member(group: GroupWithStaticMembers[M], instance_id: str | None) -> M | None:
    member_id = None if instance_id is None else group.static_members.get(instance_id)
    return None if member_id is None else group.members.get(member_id)


def track_static(static_members: dict[str, str], old: Any, new: Any) -> None:
    """Update the member ids by instance id after ``new`` has replaced ``old``. Either of the two may be None."""
    if old is not None and old.instance_id is not None and static_members.get(old.instance_id) == old.member_id:
        del static_members[old.instance_id]
    if new is not None and new.instance_id is not None:
        static_members[new.instance_id] = new.member_id


T = TypeVar("T")


def with_member(group: GroupWithStaticMembers[M], targets: Mapping[str, T], member: Any) -> tuple[Mapping[str, M], Mapping[str, T]]:
    """Return the members and targets of a group after ``member`` is added.

    It replaces the member with its member id, or the static member with its instance id, whose target it gets. If ``member`` is
    None, nothing changes.
    """
    if member is None:
        return group.members, targets
    members = {**group.members, member.member_id: member}
    replaced = None if member.instance_id is None else group.static_members.get(member.instance_id)
    if replaced is not None and replaced != member.member_id:
        members.pop(replaced)
        targets = {(member.member_id if member_id == replaced else member_id): target for member_id, target in targets.items()}
    return members, targets


# setting and reading deadlines of groups


def note_due(group: TimedGroup, deadline_ms: int) -> None:
    if group.due_ms is None or deadline_ms < group.due_ms:
        group.due_ms = deadline_ms


def extend_session(group: ModernGroup, member_id: str, deadline_ms: int) -> None:
    group.sessions_ms[member_id] = deadline_ms
    note_due(group, deadline_ms)


def time_revocation(group: Any, member: Any, now_ms: int, *, is_revoking: bool) -> None:
    """Set the deadline of a member that must give up a part of its assignment, one rebalance timeout from now."""
    if is_revoking and member.member_epoch >= 0 and member.rebalance_timeout_ms != UNKNOWN_TIMEOUT_MS:
        deadline_ms = now_ms + member.rebalance_timeout_ms
        group.revocations_ms[member.member_id] = deadline_ms
        note_due(group, deadline_ms)
    else:
        group.revocations_ms.pop(member.member_id, None)


def late_members(group: ModernGroup, now_ms: int) -> list[str]:
    """Return the members that have missed a deadline, each once."""
    return list(dict.fromkeys(m for kind in group.deadlines_ms for m, deadline_ms in kind.items() if deadline_ms <= now_ms))


def earliest_deadline_ms(group: ModernGroup) -> int | None:
    """Return the earliest time at which a member's deadline may change the group. It may be in the past."""
    return min((deadline_ms for kind in group.deadlines_ms for deadline_ms in kind.values()), default=None)
