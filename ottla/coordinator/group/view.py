"""What offsets, listings and deletions ask of a group, whatever its protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ottla.coordinator.result import LogRecord

CommitCheck = Callable[[bytes | None, str, int], None]
"""Judges the commit of one partition by topic id, topic and partition. Raises `KafkaError`, and refuses the whole request by it."""


class GroupView(Protocol):
    """One group. All groups share one space of ids."""

    @property
    def type_name(self) -> str:
        """As ListGroups tells it."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type_name(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it, so that it may be deleted, or give way to a group of another type."""
        ...

    @property
    def is_forgettable(self) -> bool:
        """Whether it may go when its last offset has expired."""
        ...

    @property
    def idle_since_ms(self) -> int | None:
        """When the last member left, from which offsets expire; None where each offset counts from its own commit."""
        ...

    def topics_in_use(self) -> Collection[str] | None:
        """Whose offsets stay as long as a member subscribes to them; None where that cannot be read, and all may be."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_newest_rules: bool
    ) -> CommitCheck | None:
        """Whether a member of this generation or epoch may commit, or somebody who is no member.

        Raises `KafkaError`; gives what is left to ask of each partition, if anything.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Whether whoever says that it is this member may read the group's offsets. Raises `KafkaError`."""
        ...

    def check_offset_delete(self) -> None:
        """Whether offsets may be deleted at all. Raises NON_EMPTY_GROUP."""
        ...

    def tombstones(self) -> list[LogRecord]:
        """Everything that the log has of it but its offsets."""
        ...
