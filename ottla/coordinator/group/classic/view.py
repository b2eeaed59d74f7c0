"""A classic group as a `GroupView`: for offsets, listings and deletions (ClassicGroup of Kafka)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.consumer_protocol import CONSUMER
from ottla.coordinator.group.records import group_tombstone, subscribed_topics
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError


class ClassicView(NamedTuple):
    """One group. ``group`` is None for a simple group, which has only offsets: its state is Empty, and it exists as long as it has
    offsets."""

    group_id: str
    group: ClassicGroup | None

    @property
    def type_name(self) -> str:
        return "classic"

    @property
    def state_name(self) -> str:
        return ClassicGroupState.EMPTY.value if self.group is None else self.group.state.value

    @property
    def protocol_type_name(self) -> str:
        return (self.group and self.group.protocol_type) or ""

    @property
    def is_empty(self) -> bool:
        return self.group is None or self.group.state is ClassicGroupState.EMPTY

    @property
    def is_forgettable(self) -> bool:
        return self.group is None or (self.group.state is ClassicGroupState.EMPTY and not self.group.pending)

    @property
    def idle_since_ms(self) -> int | None:
        group = self.group
        return None if group is None or group.members or group.protocol_type is None else group.state_since_ms

    def topics_in_use(self) -> Collection[str] | None:
        return subscribed_topics(self.group) if self.group is not None and self.group.members else ()

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_new_error_codes: bool
    ) -> None:
        """Raise the errors of ClassicGroup.validateOffsetCommit. ``epoch`` is the generation."""
        group = self.group
        if group is None:
            if epoch >= 0:
                raise KafkaError(Code.UNKNOWN_MEMBER_ID)
            return
        if epoch < 0 and group.state is ClassicGroupState.EMPTY:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            group.check_member(member_id, instance_id)
            if epoch != group.generation:
                raise KafkaError(Code.ILLEGAL_GENERATION)
        elif not transactional and group.state is not ClassicGroupState.EMPTY:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        if not transactional and group.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise KafkaError(Code.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allow every client to read the offsets."""

    def check_offset_delete(self) -> None:
        if self.group is not None and self.group.members and self.group.protocol_type != CONSUMER:
            raise KafkaError(Code.NON_EMPTY_GROUP)

    def tombstones(self) -> list[LogRecord]:
        return [group_tombstone(self.group_id)]
