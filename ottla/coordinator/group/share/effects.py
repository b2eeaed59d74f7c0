"""What a decision about a share group changes in memory once its records are in the log (`ShareGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class HeardOfShareMember(Effect, frozen=True):
    """A member was heard of: its session begins anew."""

    group_id: str
    member_id: str
    now_ms: int


class ShareGroupLookedAtTopics(Effect, frozen=True):
    """A share group has taken over how the topics are that it subscribes to."""

    group_id: str


class AwaitNextShareDeadline(Effect, frozen=True):
    """A share group's deadlines are looked at again when the next of them comes, and after ``now_ms``."""

    group_id: str
    now_ms: int


SHARE_EFFECTS = (HeardOfShareMember, ShareGroupLookedAtTopics, AwaitNextShareDeadline)
