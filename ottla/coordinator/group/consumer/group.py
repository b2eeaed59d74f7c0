"""A consumer group, as its records describe it (ConsumerGroup and ModernGroup of Kafka)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.consumer.member import ConsumerGroupMember, HeldPartitions
from ottla.coordinator.group.consumer.records import RECORDS, REGEX, group_tombstones, read_epoch, read_regex, regex_tombstone
from ottla.coordinator.group.epochs import FIRST_EPOCH
from ottla.coordinator.group.modern.group import known_member, note_due, track_static
from ottla.coordinator.group.view import CommitCheck
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError

CONSUMER = "consumer"
"""The type of consumer groups and of their protocol."""


class ConsumerGroupState(Enum):
    """The state of a consumer group. The values are the names that Kafka's tools print."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(msgspec.Struct):
    """One consumer group. Only replay changes it, except the deadlines, ``is_stale`` and ``is_resolving``, which are never logged.

    ``targets`` are the members' target assignments of ``assignment_epoch``. If ``group_epoch`` is higher, a new target must be
    computed. ``holders`` maps topic id and partition to the member that holds the partition; a partition has at most one holder.
    Deadlines by member: ``sessions_ms`` for the session, ``revocations_ms`` for giving up partitions, and for members of the
    classic protocol ``joins_ms`` and ``syncs_ms`` for sending JoinGroup and SyncGroup. ``classic_count`` is the number of members
    that use the classic protocol.
    """

    type_name: ClassVar[str] = CONSUMER
    protocol_type_name: ClassVar[str] = CONSUMER
    idle_since_ms: ClassVar[None] = None
    """None: even in an empty group, each offset expires by its own commit time."""

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assigned_ms: int = 0
    members: dict[str, ConsumerGroupMember] = msgspec.field(default_factory=dict)
    static_members: dict[str, str] = msgspec.field(default_factory=dict)
    targets: dict[str, Assignment] = msgspec.field(default_factory=dict)
    holders: dict[bytes, dict[int, str]] = msgspec.field(default_factory=dict)
    subscribers: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of members that subscribe to each topic by name."""
    regex_subscribers: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of members that subscribe with each regular expression."""
    regexes: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """The topics that match each regular expression."""
    assignors: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of members that request each assignor."""
    classic_count: int = 0
    classic_protocols: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of members of the classic protocol that support each client-side assignor (the "protocols" of JoinGroup)."""
    sessions_ms: dict[str, int] = msgspec.field(default_factory=dict)
    revocations_ms: dict[str, int] = msgspec.field(default_factory=dict)
    joins_ms: dict[str, int] = msgspec.field(default_factory=dict)
    syncs_ms: dict[str, int] = msgspec.field(default_factory=dict)
    is_stale: bool = True
    """Whether a subscribed topic may have changed since ``metadata_hash`` was computed. True after a start."""
    is_resolving: bool = False
    """Whether a heartbeat is resolving all regular expressions of the group, because topics have changed."""
    wake_ms: int | None = None
    """The time of the next check of the group's deadlines, never later than the earliest deadline."""
    due_ms: int | None = None
    """The earliest deadline set since ``wake_ms`` was computed. It may be before ``wake_ms``."""

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    # reading the group's state

    def target_of(self, member: ConsumerGroupMember) -> Assignment:
        """Return a member's target. A static member that rejoins has the target of its predecessor."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.targets.get(member_id, {})

    def uses_classic_protocol_without(self, member_ids: Collection[str]) -> bool:
        """Whether all members except ``member_ids`` use the classic protocol."""
        gone = sum(self.members[m].classic is not None for m in member_ids)
        return self.classic_count - gone == len(self.members) - len(member_ids)

    def accepts_classic(self, protocol_type: str, names: set[str]) -> bool:
        """Whether some protocol of ``names`` is supported by all members of the classic protocol
        (ConsumerGroup.supportsClassicProtocols)."""
        return protocol_type == CONSUMER and any(self.classic_protocols[name] == self.classic_count for name in names)

    def is_taken(self, topic_id: bytes, partition: int) -> bool:
        return partition in self.holders.get(topic_id, ())

    def waits_for_partitions(self, member: ConsumerGroupMember) -> bool:
        """Whether other members hold a partition of the member's target (ConsumerGroup.waitingOnUnreleasedPartition)."""
        return any(
            partition not in member.assigned.get(topic, ()) and self.is_taken(topic, partition)
            for topic, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def topics_with(
        self, old: ConsumerGroupMember, new: ConsumerGroupMember, regexes: Mapping[str, frozenset[str]]
    ) -> Iterable[str]:
        """Return the topics that the members will have subscribed to when the member ``old`` becomes ``new``. For a new member,
        ``old`` has no topics."""
        gone = {topic for topic in old.topic_names - new.topic_names if self.subscribers[topic] <= 1}
        return (self.subscribers.keys() - gone).union(new.topic_names, *regexes.values())

    def preferred_assignor(self, old: ConsumerGroupMember | None = None, new: ConsumerGroupMember | None = None) -> str | None:
        """Return the assignor that most members request once ``new`` has replaced ``old``, or None if no member requests any.

        A tie is decided as by Kafka's hash maps: an assignor that only ``new`` requests wins, else uniform wins over range.
        """
        listed = sorted(self.assignors, reverse=True)
        counts: Mapping[str, int] = self.assignors
        if old is not None and new is not None and old.assignor != new.assignor:
            wanted = self.assignors.copy()
            wanted.subtract([old.assignor] if old.assignor is not None else [])
            wanted.update([new.assignor] if new.assignor is not None else [])
            first = [new.assignor] if new.assignor is not None and new.assignor not in self.assignors else []
            counts, listed = wanted, [*first, *listed]
        return max((name for name in listed if counts[name] > 0), key=lambda name: counts[name], default=None)

    # implementing `GroupView`, for offsets, listings and deletions

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_forgettable(self) -> bool:
        return self.is_empty

    def topics_in_use(self) -> Collection[str]:
        return self.subscribers.keys() | frozenset().union(*self.regexes.values())

    def check_offset_delete(self) -> None:
        """Allow OffsetDelete. `GroupShard` refuses the topics of `topics_in_use`."""

    def tombstones(self) -> list[LogRecord]:
        return group_tombstones(self.group_id, self.members, self.regexes)

    def tombstones_of(self, member_id: str) -> list[LogRecord]:
        """Return all tombstones that removing a member may write: for its records, and for its regular expression."""
        regex = self.members[member_id].topic_regex
        return [*RECORDS.member_tombstones(self.group_id, member_id), *([regex_tombstone(self.group_id, regex)] if regex else [])]

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_new_error_codes: bool
    ) -> CommitCheck | None:
        """Check a commit, which a member may make at its own epoch (ConsumerGroup.validateOffsetCommit).

        At an older epoch, a member may commit partitions that it has held since that epoch or longer (KIP-1251).
        """
        if epoch < 0 and not self.members:
            return None
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = known_member(self, member_id)
        is_classic = member.classic is not None
        if not transactional and not is_classic and not has_new_error_codes:
            raise KafkaError(
                Code.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        # Clients whose version of TxnOffsetCommit lacks STALE_MEMBER_EPOCH get ILLEGAL_GENERATION.
        stale = Code.STALE_MEMBER_EPOCH if has_new_error_codes and not is_classic else Code.ILLEGAL_GENERATION
        received = f"Received {'generation id' if is_classic else 'member epoch'} {epoch}"
        if epoch > member.member_epoch:
            raise KafkaError(stale, f"{received} is newer than current member epoch {member.member_epoch}.")

        def check(topic_id: bytes | None, topic: str, partition: int) -> None:
            since = None if topic_id is None else member.assignment_epoch(topic_id, partition)
            if since is None:
                message = f"Partition {topic}-{partition} is not assigned or pending revocation for member."
                raise KafkaError(stale, message)
            if epoch < since:
                raise KafkaError(stale, f"{received} is older than assignment epoch {since} for partition {topic}-{partition}.")

        return None if epoch == member.member_epoch else check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or, for a member of the classic protocol, ILLEGAL_GENERATION."""
        if member_id is None and epoch < 0:
            return
        member = known_member(self, "" if member_id is None else member_id)
        if epoch != member.member_epoch:
            code, name = Code.STALE_MEMBER_EPOCH, "member epoch"
            if member.classic is not None:
                code, name = Code.ILLEGAL_GENERATION, "generation id"
            raise KafkaError(code, f"The received {name} {epoch} does not match the expected member epoch {member.member_epoch}.")

    # replaying records

    def replay(self, kind: int, key: Any, value: bytes | None, now_ms: int) -> None:
        """Replay the group's metadata, or the topics or the tombstone of a regular expression."""
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        elif kind == REGEX:
            self.regexes[key.regular_expression] = read_regex(value)
        else:
            self.group_epoch, self.metadata_hash = read_epoch(value)

    def put(self, member: ConsumerGroupMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self._count(old, member)
        track_static(self.static_members, old, member)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        if member.classic is None:
            self.joins_ms.pop(member.member_id, None)
            self.syncs_ms.pop(member.member_id, None)
        self._hold(member.member_id, member.assigned)
        self._hold(member.member_id, member.revoking)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, None)
        self._release(member)
        track_static(self.static_members, member, None)
        for deadlines in self.deadlines_ms:
            deadlines.pop(member_id, None)

    def _count(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        for member, by in ((new, 1), (old, -1)):
            if member is None:
                continue
            if (old and old.topic_names) != (new and new.topic_names):
                _add(self.subscribers, member.topic_names, by)
            if member.topic_regex and (old and old.topic_regex) != (new and new.topic_regex):
                _add(self.regex_subscribers, (member.topic_regex,), by)
            if member.assignor is not None and (old and old.assignor) != (new and new.assignor):
                _add(self.assignors, (member.assignor,), by)
            if member.classic is not None:
                self.classic_count += by
                _add(self.classic_protocols, {name for name, _ in member.classic.protocols}, by)

    def _hold(self, member_id: str, partitions: HeldPartitions) -> None:
        for topic, epochs in partitions.items():
            self.holders.setdefault(topic, {}).update(dict.fromkeys(epochs, member_id))

    def _release(self, member: ConsumerGroupMember) -> None:
        for partitions in (member.assigned, member.revoking):
            for topic, epochs in partitions.items():
                held = self.holders.get(topic, {})
                for partition in epochs:
                    if held.get(partition) == member.member_id:
                        del held[partition]
                if not held:
                    self.holders.pop(topic, None)

    # setting and reading members' deadlines

    @property
    def deadlines_ms(self) -> tuple[dict[str, int], ...]:
        return self.sessions_ms, self.revocations_ms, self.joins_ms, self.syncs_ms

    def await_join(self, member: ConsumerGroupMember, now_ms: int) -> None:
        """Start the rebalance timeout of a member of the classic protocol that must rejoin, unless it is already running."""
        deadline_ms = self.joins_ms.setdefault(member.member_id, now_ms + member.rebalance_timeout_ms)
        note_due(self, deadline_ms)

    def await_sync(self, member_id: str, deadline_ms: int) -> None:
        """Set the deadline for SyncGroup of a member of the classic protocol that has joined."""
        self.joins_ms.pop(member_id, None)
        self.syncs_ms[member_id] = deadline_ms
        note_due(self, deadline_ms)


def _add(counts: Counter[str], names: Iterable[str], by: int) -> None:
    for name in names:
        counts[name] += by
        if counts[name] <= 0:
            del counts[name]


def held_partitions(members: Mapping[str, ConsumerGroupMember]) -> dict[tuple[bytes, int], list[str]]:
    """Compute the holders of each partition from the members, to check `ConsumerGroup.holders`."""
    held: dict[tuple[bytes, int], list[str]] = {}
    for member in members.values():
        for partitions in (member.assigned, member.revoking):
            for topic, epochs in partitions.items():
                for partition in epochs:
                    held.setdefault((topic, partition), []).append(member.member_id)
    return held
