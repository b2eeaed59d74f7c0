"""Changes of consumer groups in memory that follow once a decision's records are in the log (`ConsumerGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class ConsumerMemberSeen(Effect, frozen=True):
    """A member of a consumer group has sent a heartbeat: its session starts anew."""

    group_id: str
    member_id: str
    now_ms: int


class ClassicMemberJoined(Effect, frozen=True):
    """A member of the classic protocol has joined a consumer group: its session starts anew, and it must sync within the
    time-out."""

    group_id: str
    member_id: str
    now_ms: int
    sync_timeout_ms: int


class ConsumerGroupTopicsRead(Effect, frozen=True):
    """A consumer group has taken into account the current state of the topics to which it subscribes."""

    group_id: str


class AwaitNextConsumerDeadline(Effect, frozen=True):
    """Check a consumer group's deadlines when the next of them comes, but after ``now_ms``."""

    group_id: str
    now_ms: int


CONSUMER_EFFECTS = (ConsumerMemberSeen, ClassicMemberJoined, ConsumerGroupTopicsRead, AwaitNextConsumerDeadline)
