"""What goes into and comes out of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignor
from ottla.coordinator.group.consumer.member import HeldPartitions


class ConsumerGroupConfig(msgspec.Struct, frozen=True):
    """``assignors`` are by name, the default one first."""

    assignors: Mapping[str, Assignor] = {}
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    max_size: int = 0x7FFFFFFF

    @property
    def default_assignor(self) -> str:
        return next(iter(self.assignors))


ConfigOfGroup = Callable[[str], ConsumerGroupConfig]
"""By group id. Some of it belongs to a group alone, and clients change it while the group lives."""


def same_for_all(config: ConsumerGroupConfig) -> ConfigOfGroup:
    return lambda group_id: config


class ConsumerHeartbeat(msgspec.Struct):
    """A ConsumerGroupHeartbeat as the coordinator sees it. What is None has not changed since the member said it last."""

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
        """A member says everything where it is not sure what the broker knows, and is told everything."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class ConsumerHeartbeatAnswer(msgspec.Struct):
    """``assignment`` is None where the member has been told already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: HeldPartitions | None = None
