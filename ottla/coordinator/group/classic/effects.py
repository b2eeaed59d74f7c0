"""Changes of classic groups in memory that follow once a decision's records are in the log (`ClassicMembership.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.result import Effect


class ReplaceGroup(Effect, frozen=True):
    """Store a new group, or replace a group by its changed copy."""

    group: ClassicGroup


class SetGroupTimer(Effect, frozen=True):
    """Check the group's deadlines next at ``wake_ms``, or never if ``wake_ms`` is None."""

    group_id: str
    wake_ms: int | None


class BeginGeneration(Effect, frozen=True):
    """Members have got their assignments: they no longer wait in SyncGroup, and their sessions restart."""

    group_id: str
    member_ids: tuple[str, ...]
    now_ms: int


class ExtendSession(Effect, frozen=True):
    """Restart the session of a member that committed offsets. Ignored for an unknown member id."""

    group_id: str
    member_id: str
    now_ms: int
