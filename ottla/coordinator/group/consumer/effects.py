"""Changes in memory for members of the classic protocol in a consumer group (`ConsumerGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.group.modern.effects import ModernEffect


class ClassicMemberJoined(ModernEffect, frozen=True):
    """Restart the session of a member of the classic protocol that joined. The member must send SyncGroup in time."""

    member_id: str
    now_ms: int
    sync_timeout_ms: int
