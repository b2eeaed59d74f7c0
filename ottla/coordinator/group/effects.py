"""What a decision about a group changes in memory once its record is in the log; `GroupShard.apply` has these changes made."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import Group
from ottla.coordinator.result import Effect


class ReplaceGroup(Effect, frozen=True):
    """A draft takes the place of the group that it was copied from, or is the first of its name."""

    group: Group


class SetGroupTimer(Effect, frozen=True):
    """The group's deadlines are looked at again at ``wake_ms``, and not before; None: it has none."""

    group_id: str
    wake_ms: int | None


class BeginGeneration(Effect, frozen=True):
    """Members have got their assignments: none of them waits for one any more, and their sessions begin anew."""

    group_id: str
    member_ids: tuple[str, ...]
    now_ms: int


class ExtendSession(Effect, frozen=True):
    """A member was heard of by its commit. Nothing happens where it is no member."""

    group_id: str
    member_id: str
    now_ms: int


class HeardOfMember(Effect, frozen=True):
    """A member of a consumer group was heard of: its session begins anew."""

    group_id: str
    member_id: str
    now_ms: int


class ClassicMemberJoined(Effect, frozen=True):
    """A member of the classic protocol has joined a consumer group: its session begins anew, and it is to sync in time."""

    group_id: str
    member_id: str
    now_ms: int
    sync_timeout_ms: int


class GroupLookedAtTopics(Effect, frozen=True):
    """A consumer group has taken over how the topics are that it subscribes to."""

    group_id: str


class AwaitNextDeadline(Effect, frozen=True):
    """A consumer group's deadlines are looked at again when the next of them comes, and after ``now_ms``."""

    group_id: str
    now_ms: int
