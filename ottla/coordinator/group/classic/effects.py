"""Changes of classic groups in memory that follow once a decision's records are in the log (`Membership.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.result import Effect


class ReplaceGroup(Effect, frozen=True):
    """A draft replaces the group from which it was copied, or is a new group."""

    group: ClassicGroup


class SetGroupTimer(Effect, frozen=True):
    """Check the group's deadlines at ``wake_ms`` and not before; None where the group has no deadline."""

    group_id: str
    wake_ms: int | None


class BeginGeneration(Effect, frozen=True):
    """Members have got their assignments: they no longer wait in SyncGroup, and their sessions start anew."""

    group_id: str
    member_ids: tuple[str, ...]
    now_ms: int


class ExtendSession(Effect, frozen=True):
    """A member has committed offsets, so its session starts anew. Nothing happens for an id that is not a member."""

    group_id: str
    member_id: str
    now_ms: int
