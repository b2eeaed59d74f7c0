"""Requests, responses and configuration of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignor
from ottla.coordinator.group.consumer.member import HeldPartitions
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class ConsumerGroupConfig(msgspec.Struct, frozen=True):
    """The configuration of a consumer group. ``assignors`` are by name; the first is the default."""

    assignors: Mapping[str, Assignor] = {}
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    max_size: int = 0x7FFFFFFF

    @property
    def default_assignor(self) -> str:
        return next(iter(self.assignors))


ConfigOfGroup = Callable[[str], ConsumerGroupConfig]
"""A function that returns a group's configuration, given its id. Clients may change a group's configs at any time."""


def same_for_all(config: ConsumerGroupConfig) -> ConfigOfGroup:
    return lambda group_id: config


ConsumerHeartbeat = Heartbeat[ConsumerGroupHeartbeatRequest]


def is_full(beat: ConsumerHeartbeat) -> bool:
    """Whether the request has all fields. A member that does not know the broker's state sends all fields, and gets a full
    response."""
    request = beat.request
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and has_subscription and beat.owned is not None


class ConsumerHeartbeatAnswer(msgspec.Struct):
    """The response to a heartbeat. ``assignment`` is None if the member already knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: HeldPartitions | None = None
