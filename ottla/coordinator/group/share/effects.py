"""Changes of share groups in memory that follow once a decision's records are in the log (`ShareGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class ShareMemberSeen(Effect, frozen=True):
    """A member has sent a heartbeat: its session starts anew."""

    group_id: str
    member_id: str
    now_ms: int


class ShareGroupTopicsRead(Effect, frozen=True):
    """A share group has taken into account the current state of the topics to which it subscribes."""

    group_id: str


class AwaitNextShareDeadline(Effect, frozen=True):
    """Check a share group's deadlines when the next of them comes, but after ``now_ms``."""

    group_id: str
    now_ms: int


SHARE_EFFECTS = (ShareMemberSeen, ShareGroupTopicsRead, AwaitNextShareDeadline)
