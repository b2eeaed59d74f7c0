"""The interface of a group of any protocol for offsets, listings and deletions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ottla.coordinator.result import LogRecord

CommitCheck = Callable[[bytes | None, str, int], None]
"""A function that checks the commit of one partition, given topic id, topic and partition. A `KafkaError` rejects the whole
request."""


class GroupView(Protocol):
    """A group of any protocol. The ids of all groups share one namespace."""

    @property
    def type_name(self) -> str:
        """The group type in ListGroups."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type_name(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members. If so, it may be deleted, or replaced by a group of another type."""
        ...

    @property
    def is_forgettable(self) -> bool:
        """Whether the group may be removed when its last offset has expired."""
        ...

    @property
    def idle_since_ms(self) -> int | None:
        """The time in ms when the last member left, which starts the retention of offsets. None if each commit starts it."""
        ...

    def topics_in_use(self) -> Collection[str] | None:
        """Return the subscribed topics, whose offsets do not expire, or None if a subscription cannot be decoded."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_new_error_codes: bool
    ) -> CommitCheck | None:
        """Check a commit of a member at this generation or epoch, or of a client that is not a member. Raises `KafkaError`.

        Returns the check to make for each partition, if any.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check that a client with this member id may read the group's offsets. Raises `KafkaError`."""
        ...

    def check_offset_delete(self) -> None:
        """Check whether offsets may be deleted at all. Raises `KafkaError`, mostly NON_EMPTY_GROUP."""
        ...

    def tombstones(self) -> list[LogRecord]:
        """Return tombstones for all records of the group except its offsets."""
        ...
