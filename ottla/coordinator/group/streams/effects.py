"""Changes of streams groups in memory that follow once a decision's records are in the log (`StreamsGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.modern.effects import ModernEffect
from ottla.coordinator.group.streams.group import MemberTaskOffsets


class DelayFirstAssignment(ModernEffect, frozen=True):
    """Wait until ``until_ms`` for more members before computing the first target of an empty group. None ends the wait."""

    until_ms: int | None


class KeepTaskOffsets(ModernEffect, frozen=True):
    """Store the offsets of a member's state stores."""

    member_id: str
    offsets: MemberTaskOffsets


class RequestShutdown(ModernEffect, frozen=True):
    """A member requested the shutdown of its application. Heartbeat responses report this until the group is empty."""

    member_id: str


class RaiseEndpointEpoch(ModernEffect, frozen=True):
    """Another member now serves some partitions for interactive queries, so members need the new endpoints."""
