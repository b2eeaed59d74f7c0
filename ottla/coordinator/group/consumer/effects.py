"""The effect of a consumer group's members of the classic protocol on state in memory (`ConsumerGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.modern.effects import ModernEffect


class ClassicMemberJoined(ModernEffect, frozen=True):
    """Restart the session of a member of the classic protocol that joined. It must send SyncGroup within the timeout."""

    member_id: str
    now_ms: int
    sync_timeout_ms: int
