"""A share group, as its records describe it (ShareGroup and ModernGroup of Kafka)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any, ClassVar, NoReturn

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.epochs import FIRST_EPOCH
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.group.share.records import RECORDS, STATES, StatePartitions, group_tombstones, read_epoch, read_states
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError

SHARE = "share"
"""The type of share groups and of their protocol."""


class ShareGroupState(Enum):
    """The state of a share group. The values are the names that Kafka's tools print."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(msgspec.Struct):
    """One share group. Only replay changes it, except the deadlines, ``is_stale`` and ``has_all_states``, which are never logged.

    ``targets`` are the members' target assignments of ``assignment_epoch``. If ``group_epoch`` is higher, a new target must be
    computed. ``states`` are the partitions whose state the share coordinator has, or must initialize or delete. Only initialized
    partitions are assigned.
    """

    type_name: ClassVar[str] = SHARE
    protocol_type_name: ClassVar[str] = SHARE
    idle_since_ms: ClassVar[None] = None
    """None, because share groups have no committed offsets."""
    is_forgettable: ClassVar[bool] = False
    """A share group exists until it is deleted, like its states in the share coordinator."""

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assigned_ms: int = 0
    members: dict[str, ShareGroupMember] = msgspec.field(default_factory=dict)
    targets: dict[str, Assignment] = msgspec.field(default_factory=dict)
    states: StatePartitions | None = None
    """None until the state of a partition must be initialized."""
    states_noted_ms: int = 0
    """The time in ms of the last change of ``states``, from which the retry interval of an initialization counts."""
    subscribers: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of members that subscribe to each topic."""
    sessions_ms: dict[str, int] = msgspec.field(default_factory=dict)
    """The time in ms when each member's session expires."""
    is_stale: bool = True
    """Whether a subscribed topic may have changed since ``metadata_hash`` was computed. True after a start."""
    wake_ms: int | None = None
    """The time of the next check of the group's deadlines, never later than the earliest deadline."""
    due_ms: int | None = None
    """The earliest deadline set since ``wake_ms`` was computed. It may be before ``wake_ms``."""
    has_all_states: bool = False
    """Whether the share coordinator has a state for each subscribed partition. If so, heartbeats need not check them."""
    _has_unassigned: bool | None = None
    """The cached result of `has_unassigned`, None after a record has changed the group."""

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def topics_with(self, old: ShareGroupMember | None, new: ShareGroupMember | None) -> frozenset[str]:
        """Return the members' subscribed topics once ``new`` has replaced ``old``."""
        before = frozenset() if old is None else old.topic_names
        after = frozenset() if new is None else new.topic_names
        gone = {topic for topic in before - after if self.subscribers[topic] <= 1}
        return frozenset(self.subscribers.keys() - gone) | after

    def has_unassigned(self) -> bool:
        """Whether the targets differ from the initialized partitions of a subscribed topic.

        Corresponds to GroupMetadataManager.initializedAssignmentPending of Kafka.
        """
        if self._has_unassigned is None:
            self._has_unassigned = self._find_unassigned()
        return self._has_unassigned

    def _find_unassigned(self) -> bool:
        if not self.members or self.states is None:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            name in self.subscribers and assigned.get(topic_id, set()) ^ partitions
            for topic_id, (name, partitions) in self.states.initialized.items()
        )

    # implementing `GroupView`, for offsets, listings and deletions

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        return self.state.value

    def topics_in_use(self) -> frozenset[str]:
        return frozenset(self.subscribers)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_new_error_codes: bool
    ) -> NoReturn:
        """Raise GROUP_ID_NOT_FOUND, because clients cannot commit offsets of a share group."""
        raise self._is_no_consumer_group()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allow OffsetFetch: the client gets no offsets, as for a group that does not exist."""

    def check_offset_delete(self) -> None:
        raise self._is_no_consumer_group()

    def _is_no_consumer_group(self) -> KafkaError:
        return KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def tombstones(self) -> list[LogRecord]:
        return group_tombstones(self.group_id, self.members)

    def tombstones_of(self, member_id: str) -> list[LogRecord]:
        return RECORDS.member_tombstones(self.group_id, member_id)

    # replaying records

    def changed(self) -> None:
        """Invalidate caches after a record of the group was replayed."""
        self._has_unassigned, self.has_all_states = None, False

    def replay(self, kind: int, key: Any, value: bytes | None, now_ms: int) -> None:
        """Replay the group's metadata, or the states of its partitions or their tombstone."""
        if value is None:
            self.states = None
        elif kind == STATES:
            self.states, self.states_noted_ms = read_states(value), now_ms
        else:
            self.group_epoch, self.metadata_hash = read_epoch(value)

    def put(self, member: ShareGroupMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is None or old.topic_names != member.topic_names:
            self._count(old, -1)
            self._count(member, 1)

    def remove(self, member_id: str) -> None:
        self._count(self.members.pop(member_id, None), -1)
        self.sessions_ms.pop(member_id, None)

    def _count(self, member: ShareGroupMember | None, by: int) -> None:
        names: Iterable[str] = () if member is None else member.topic_names
        for name in names:
            self.subscribers[name] += by
            if self.subscribers[name] <= 0:
                del self.subscribers[name]

    # reading deadlines

    @property
    def deadlines_ms(self) -> tuple[dict[str, int], ...]:
        return (self.sessions_ms,)
