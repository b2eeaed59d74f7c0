"""Changes of consumer groups in memory that follow once a decision's records are in the log (`ConsumerGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class ConsumerMemberSeen(Effect, frozen=True):
    """Restart the session of a member that sent a heartbeat."""

    group_id: str
    member_id: str
    now_ms: int


class ClassicMemberJoined(Effect, frozen=True):
    """Restart the session of a member of the classic protocol that joined. It must send SyncGroup within the timeout."""

    group_id: str
    member_id: str
    now_ms: int
    sync_timeout_ms: int


class ConsumerGroupTopicsRead(Effect, frozen=True):
    """The group has evaluated the current state of its subscribed topics."""

    group_id: str


class AwaitNextConsumerDeadline(Effect, frozen=True):
    """Check a consumer group's deadlines at the next of them, but after ``now_ms``."""

    group_id: str
    now_ms: int


CONSUMER_EFFECTS = (ConsumerMemberSeen, ClassicMemberJoined, ConsumerGroupTopicsRead, AwaitNextConsumerDeadline)
