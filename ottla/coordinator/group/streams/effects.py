"""What a decision about a streams group changes in memory once its records are in the log; `StreamsGroups.apply` does it."""

from __future__ import annotations

from ottla.coordinator.group.streams.group import MemberTaskOffsets
from ottla.coordinator.result import Effect


class HeardOfStreamsMember(Effect, frozen=True):
    """A member was heard of: its session begins anew."""

    group_id: str
    member_id: str
    now_ms: int


class DelayFirstAssignment(Effect, frozen=True):
    """More members are waited for before the first target of a new group is computed; None: no longer."""

    group_id: str
    until_ms: int | None


class KeepTaskOffsets(Effect, frozen=True):
    """A member has told how far its stores are."""

    group_id: str
    member_id: str
    offsets: MemberTaskOffsets


class RequestShutdown(Effect, frozen=True):
    """A member wants the whole application to end; members are told for as long as there are any."""

    group_id: str
    member_id: str


class RaiseEndpointEpoch(Effect, frozen=True):
    """It has changed who serves which partitions to interactive queries."""

    group_id: str


class AwaitNextStreamsDeadline(Effect, frozen=True):
    """The group's deadlines are looked at again when the next of them comes, and after ``now_ms``."""

    group_id: str
    now_ms: int


STREAMS_EFFECTS = (
    HeardOfStreamsMember,
    DelayFirstAssignment,
    KeepTaskOffsets,
    RequestShutdown,
    RaiseEndpointEpoch,
    AwaitNextStreamsDeadline,
)
