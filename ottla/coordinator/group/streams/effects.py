"""Changes of streams groups in memory that follow once a decision's records are in the log (`StreamsGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.streams.group import MemberTaskOffsets
from ottla.coordinator.result import Effect


class StreamsMemberSeen(Effect, frozen=True):
    """Restart the session of a member that sent a heartbeat."""

    group_id: str
    member_id: str
    now_ms: int


class DelayFirstAssignment(Effect, frozen=True):
    """Wait until ``until_ms`` for more members before computing the first target of a new group. None ends the wait."""

    group_id: str
    until_ms: int | None


class KeepTaskOffsets(Effect, frozen=True):
    """Store the offsets of a member's state stores."""

    group_id: str
    member_id: str
    offsets: MemberTaskOffsets


class RequestShutdown(Effect, frozen=True):
    """A member requests a shutdown of the whole application. All members get a status, as long as the group has members."""

    group_id: str
    member_id: str


class RaiseEndpointEpoch(Effect, frozen=True):
    """Another member now serves some partitions for interactive queries, so members need the new endpoints."""

    group_id: str


class AwaitNextStreamsDeadline(Effect, frozen=True):
    """Check a streams group's deadlines at the next of them, but after ``now_ms``."""

    group_id: str
    now_ms: int


STREAMS_EFFECTS = (
    StreamsMemberSeen,
    DelayFirstAssignment,
    KeepTaskOffsets,
    RequestShutdown,
    RaiseEndpointEpoch,
    AwaitNextStreamsDeadline,
)
