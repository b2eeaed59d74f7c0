"""Requests, responses and configuration of classic groups and of offsets."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from ottla.coordinator.group.classic.group import Protocols
from ottla.coordinator.group.consumer.requests import ConfigOfGroup, ConsumerGroupConfig, same_for_all
from ottla.coordinator.group.share.requests import ShareGroupConfig
from ottla.coordinator.group.streams.requests import StreamsGroupConfig
from ottla.coordinator.result import Waiter
from ottla.protocol.errors import Code

NO_GENERATION = -1


class MigrationPolicy(Enum):
    """The direction in which groups with members may be converted. The values are those of group.consumer.migration.policy."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether classic groups may become consumer groups."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether consumer groups may become classic groups."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class GroupConfig(msgspec.Struct, frozen=True):
    """The configuration of classic groups and of offsets.

    ``consumer_of``, ``streams_of`` and ``share_of`` return the current configuration of a group of another protocol by its id.
    """

    min_session_timeout_ms: int = 100
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 0x7FFFFFFF
    initial_rebalance_delay_ms: int = 0
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10_080 * 60_000
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_of: ConfigOfGroup = same_for_all(ConsumerGroupConfig())
    streams_of: Callable[[str], StreamsGroupConfig] = lambda _: StreamsGroupConfig()
    share_of: Callable[[str], ShareGroupConfig] = lambda _: ShareGroupConfig()


class JoinRequest(msgspec.Struct):
    """A JoinGroup request. ``needs_known_id``: from version 4 on, a new member gets a member id and joins again with it."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_known_id: bool
    waiter: Waiter
    supports_skip_assignment: bool = False


class SyncRequest(msgspec.Struct):
    """A SyncGroup request. Fields that its version does not have are None."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]
    waiter: Waiter


class JoinAnswer(msgspec.Struct):
    code: Code = Code.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: list[tuple[str, str | None, bytes]] = []
    skip_assignment: bool = False


class SyncAnswer(msgspec.Struct):
    code: Code = Code.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""
