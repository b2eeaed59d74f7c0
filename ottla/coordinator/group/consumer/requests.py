"""Requests, responses and configuration of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignor
from ottla.coordinator.group.consumer.member import HeldPartitions


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
"""The configuration by group id. Groups may have their own configs, which clients may change at any time."""


def same_for_all(config: ConsumerGroupConfig) -> ConfigOfGroup:
    return lambda group_id: config


class ConsumerHeartbeat(msgspec.Struct):
    """A ConsumerGroupHeartbeat request. A field is None if it is unchanged since the member last sent it."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: list[str] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Mapping[bytes, frozenset[int]] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the request has all fields. A member that does not know the broker's state sends them, and gets a full
        response."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class ConsumerHeartbeatAnswer(msgspec.Struct):
    """The response. ``assignment`` is None if the member already knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: HeldPartitions | None = None
