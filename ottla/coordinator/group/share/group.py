"""A share group as its records tell it (ShareGroup and ModernGroup of Kafka)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NoReturn

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.epochs import FIRST_EPOCH
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.group.share.records import StatePartitions, group_tombstones
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError

SHARE = "share"
"""The type of these groups, and that of their protocol."""


class ShareGroupState(Enum):
    """Values are what Kafka's tools print."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(msgspec.Struct):
    """Changed by replay alone, but for the deadlines and ``is_stale``, which no log ever has.

    ``targets`` are the members' target assignments, of ``assignment_epoch``; a ``group_epoch`` above it says that another target is
    to be computed. ``states`` are the partitions of which the share coordinator has a state: only those are assigned.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assigned_ms: int = 0
    members: dict[str, ShareGroupMember] = msgspec.field(default_factory=dict)
    targets: dict[str, Assignment] = msgspec.field(default_factory=dict)
    states: StatePartitions | None = None
    """None until the first is to be initialized."""
    states_noted_ms: int = 0
    """When ``states`` changed last: what is initializing then is asked for again after a while."""
    subscribers: Counter[str] = msgspec.field(default_factory=Counter)
    """How many members subscribe to a topic."""
    sessions_ms: dict[str, int] = msgspec.field(default_factory=dict)
    """The ends of the members' sessions."""
    is_stale: bool = True
    """Whether a topic that it subscribes to may have changed since ``metadata_hash`` was computed; it is after a start."""
    wake_ms: int | None = None
    """When the shard looks at the deadlines: never after the earliest of them."""
    due_ms: int | None = None
    """The earliest deadline that was set since the shard has fixed ``wake_ms``."""
    has_all_states: bool = False
    """Whether the share coordinator is known to have a state of each partition that is subscribed to: no heartbeat need look."""
    _has_unassigned: bool | None = None
    """What `has_unassigned` has found; None where a record has come since."""

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def member(self, member_id: str) -> ShareGroupMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def topics_with(self, old: ShareGroupMember | None, new: ShareGroupMember | None) -> frozenset[str]:
        """Topics that the members subscribe to once ``new`` stands in the place of ``old``."""
        before = frozenset() if old is None else old.topic_names
        after = frozenset() if new is None else new.topic_names
        gone = {topic for topic in before - after if self.subscribers[topic] <= 1}
        return frozenset(self.subscribers.keys() - gone) | after

    def has_unassigned(self) -> bool:
        """Whether a topic that is subscribed to has other partitions initialized than the targets have
        (GroupMetadataManager.initializedAssignmentPending)."""
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

    # as offsets, listings and deletions see it (`GroupView`)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def type_name(self) -> str:
        return SHARE

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        return SHARE

    @property
    def is_forgettable(self) -> bool:
        """It stays until it is deleted: what the share coordinator has of it does, too."""
        return False

    @property
    def idle_since_ms(self) -> None:
        return None

    def topics_in_use(self) -> frozenset[str]:
        return frozenset(self.subscribers)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_newest_rules: bool
    ) -> NoReturn:
        """It has no offsets that could be committed."""
        raise self._is_no_consumer_group()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody is told that it has none, as of a group that is not there."""

    def check_offset_delete(self) -> None:
        raise self._is_no_consumer_group()

    def _is_no_consumer_group(self) -> KafkaError:
        return KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def tombstones(self) -> list[LogRecord]:
        return group_tombstones(self.group_id, self.members)

    # replay

    def changed(self) -> None:
        """A record has come."""
        self._has_unassigned, self.has_all_states = None, False

    def put(self, member: ShareGroupMember) -> None:
        """A member is new, or has changed."""
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

    # time

    def extend_session(self, member_id: str, deadline_ms: int) -> None:
        self.sessions_ms[member_id] = deadline_ms
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms

    def late_members(self, now_ms: int) -> list[str]:
        """Whose session has ended."""
        return [member_id for member_id, deadline_ms in self.sessions_ms.items() if deadline_ms <= now_ms]

    def next_deadline_ms(self) -> int | None:
        """The earliest moment at which time may change something; it may be past."""
        return min(self.sessions_ms.values(), default=None)
