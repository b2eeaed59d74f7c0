"""What a decision about a classic group changes in memory once its record is in the log (`Membership.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.result import Effect


class ReplaceGroup(Effect, frozen=True):
    """A draft takes the place of the group that it was copied from, or is the first of its name."""

    group: ClassicGroup


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
