"""A group of any protocol, as offsets, listings and deletions need it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ottla.coordinator.result import LogRecord

CommitCheck = Callable[[bytes | None, str, int], None]
"""Checks the commit of one partition: gets topic id, topic and partition. A `KafkaError` refuses the whole request."""


class GroupView(Protocol):
    """One group. The ids of groups of all protocols share one namespace."""

    @property
    def type_name(self) -> str:
        """The type that ListGroups shows."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type_name(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that it may be deleted, or replaced by a group of another type."""
        ...

    @property
    def is_forgettable(self) -> bool:
        """Whether the group may be removed when its last offset has expired."""
        ...

    @property
    def idle_since_ms(self) -> int | None:
        """When the last member left, from which on offsets expire, in ms; None where each offset expires by its own commit time."""
        ...

    def topics_in_use(self) -> Collection[str] | None:
        """Topics whose offsets do not expire, because members subscribe to them; None where the subscriptions cannot be read."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_new_error_codes: bool
    ) -> CommitCheck | None:
        """Check a commit of a member at this generation or epoch, or of a client that is not a member. Raises `KafkaError`.

        Returns the check that remains for each partition; None where there is none.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check whether a client that claims to be this member may read the group's offsets. Raises `KafkaError`."""
        ...

    def check_offset_delete(self) -> None:
        """Check whether offsets may be deleted at all. Raises `KafkaError`, mostly NON_EMPTY_GROUP."""
        ...

    def tombstones(self) -> list[LogRecord]:
        """Tombstones for all records of the group except its offsets."""
        ...
