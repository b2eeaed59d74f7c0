"""Changes of share groups in memory that follow once a decision's records are in the log (`ShareGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class ShareMemberSeen(Effect, frozen=True):
    """Restart the session of a member that sent a heartbeat."""

    group_id: str
    member_id: str
    now_ms: int


class ShareGroupTopicsRead(Effect, frozen=True):
    """The group has evaluated the current state of its subscribed topics."""

    group_id: str


class AwaitNextShareDeadline(Effect, frozen=True):
    """Check a share group's deadlines at the next of them, but after ``now_ms``."""

    group_id: str
    now_ms: int


SHARE_EFFECTS = (ShareMemberSeen, ShareGroupTopicsRead, AwaitNextShareDeadline)
