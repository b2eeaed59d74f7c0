"""What a decision about a consumer group changes in memory once its records are in the log (`ConsumerGroups.apply`)."""

from __future__ import annotations

from ottla.coordinator.result import Effect


class HeardOfConsumerMember(Effect, frozen=True):
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


class ConsumerGroupLookedAtTopics(Effect, frozen=True):
    """A consumer group has taken over how the topics are that it subscribes to."""

    group_id: str


class AwaitNextConsumerDeadline(Effect, frozen=True):
    """A consumer group's deadlines are looked at again when the next of them comes, and after ``now_ms``."""

    group_id: str
    now_ms: int


CONSUMER_EFFECTS = (HeardOfConsumerMember, ClassicMemberJoined, ConsumerGroupLookedAtTopics, AwaitNextConsumerDeadline)
