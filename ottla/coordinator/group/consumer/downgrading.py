"""The interface that converts consumer groups to classic groups when the last member of the consumer protocol leaves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.result import Result


class Downgrading(Protocol):
    def without(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> Result[None] | None:
        """Remove members. Returns the conversion to a classic group, or None if the group remains a consumer group."""
        ...

    def may_replace(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        """Whether the group becomes a classic group when a member of the classic protocol replaces this static member."""
        ...

    def with_successor(self, group: ConsumerGroup, joining: ConsumerGroupMember, *, rebalances: bool, now_ms: int) -> Result[None]:
        """Convert the group to a classic group, in which ``joining`` replaces the static member with its instance id."""
        ...


class NeverDowngraded:
    """A `Downgrading` without migration: consumer groups never become classic groups."""

    def without(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> None:
        return None

    def may_replace(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        return False

    def with_successor(self, group: ConsumerGroup, joining: ConsumerGroupMember, *, rebalances: bool, now_ms: int) -> Result[None]:
        raise AssertionError(f"{group.group_id} is never downgraded")
