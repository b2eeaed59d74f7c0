"""Changes of consumer, streams and share groups in memory that follow once a decision's records are in the log."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class ModernEffect(Effect, frozen=True):
    """An effect on one group. `GroupShard.apply` finds the protocol by the group's id."""

    group_id: str


class MemberSeen(ModernEffect, frozen=True):
    """Restart the session of a member that sent a heartbeat. Without ``timeout_ms``, the group's session timeout applies."""

    member_id: str
    now_ms: int
    timeout_ms: int | None = None


class TopicsRead(ModernEffect, frozen=True):
    """The group has evaluated its subscribed topics, so later heartbeats need not do so."""


class AwaitNextDeadline(ModernEffect, frozen=True):
    """Check a group at its next deadline, at the earliest after ``now_ms``."""

    now_ms: int
