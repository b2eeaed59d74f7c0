"""What consumer groups ask of the migration to classic groups, when the last member of the consumer protocol goes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerGroupMember
from ottla.coordinator.result import Result


class Downgrading(Protocol):
    def without(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> Result[None] | None:
        """These members are gone. Gives what makes a classic group of the others, or None where it stays a consumer group."""
        ...

    def may_replace(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        """Whether the group becomes a classic one by a member of the classic protocol that takes the place of this one."""
        ...

    def with_successor(self, group: ConsumerGroup, joining: ConsumerGroupMember, *, rebalances: bool, now_ms: int) -> Result[None]:
        """Make a classic group of it, with a static member in its predecessor's place."""
        ...


class NeverDowngraded:
    """For consumer groups by themselves."""

    def without(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> None:
        return None

    def may_replace(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        return False

    def with_successor(self, group: ConsumerGroup, joining: ConsumerGroupMember, *, rebalances: bool, now_ms: int) -> Result[None]:
        raise AssertionError(f"{group.group_id} is never downgraded")
