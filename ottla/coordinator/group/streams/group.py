"""A streams group, as its records describe it (StreamsGroup of Kafka)."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Any, ClassVar

import msgspec

from ottla.coordinator.group.epochs import FIRST_EPOCH
from ottla.coordinator.group.modern.group import earliest_deadline_ms, known_member, note_due, track_static
from ottla.coordinator.group.streams.configuration import ConfiguredTopology
from ottla.coordinator.group.streams.member import StreamsGroupMember
from ottla.coordinator.group.streams.records import RECORDS, TOPOLOGY, GroupMetadata, group_tombstones, read_metadata, read_topology
from ottla.coordinator.group.streams.tasks import AssignedTasks, TaskId, Tasks, TaskSet
from ottla.coordinator.group.streams.topology import Topology
from ottla.coordinator.group.view import CommitCheck
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError

NEW_GROUP = GroupMetadata(epoch=FIRST_EPOCH)
STREAMS = "streams"
"""The type of streams groups and of their protocol."""


class StreamsGroupState(Enum):
    """The state of a streams group. The values are the names that Kafka's tools print."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberTaskOffsets(msgspec.Struct, frozen=True):
    """The offsets of a member's state stores by task, and the end offsets of their changelogs."""

    offsets: dict[str, dict[int, int]] = {}
    end_offsets: dict[str, dict[int, int]] = {}


class Holders(msgspec.Struct):
    """The processes that hold each task, including tasks that they must give up (`reconciliation.TaskHolders`)."""

    active: dict[TaskId, str] = msgspec.field(default_factory=dict)
    standby: dict[TaskId, set[str]] = msgspec.field(default_factory=dict)
    warmup: dict[TaskId, set[str]] = msgspec.field(default_factory=dict)

    def active_process(self, task: TaskId) -> str | None:
        return self.active.get(task)

    def standby_processes(self, task: TaskId) -> Collection[str]:
        return self.standby.get(task, ())

    def warmup_processes(self, task: TaskId) -> Collection[str]:
        return self.warmup.get(task, ())

    def hold(self, process_id: str, tasks: AssignedTasks) -> None:
        for subtopology, epochs in tasks.active.items():
            self.active.update({(subtopology, partition): process_id for partition in epochs})
        _hold(self.standby, process_id, tasks.standby)
        _hold(self.warmup, process_id, tasks.warmup)

    def release(self, process_id: str, tasks: AssignedTasks) -> None:
        for subtopology, epochs in tasks.active.items():
            for partition in epochs:
                if self.active.get((subtopology, partition)) == process_id:
                    del self.active[subtopology, partition]
        _release(self.standby, process_id, tasks.standby)
        _release(self.warmup, process_id, tasks.warmup)


def _hold(held: dict[TaskId, set[str]], process_id: str, tasks: TaskSet) -> None:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            held.setdefault((subtopology, partition), set()).add(process_id)


def _release(held: dict[TaskId, set[str]], process_id: str, tasks: TaskSet) -> None:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            processes = held.get((subtopology, partition), set())
            processes.discard(process_id)
            if not processes:
                held.pop((subtopology, partition), None)


class StreamsGroup(msgspec.Struct):
    """One streams group. Only replay changes the fields above ``configured``; the fields from ``configured`` on are never logged.

    ``targets`` are the members' target assignments of ``assignment_epoch``. If the epoch in ``metadata`` is higher, a new target
    must be computed. ``configured`` is the topology, matched with the topics whose hash is ``configured_hash``. Deadlines by
    member: ``sessions_ms`` for the session, ``revocations_ms`` for giving up tasks. ``delayed_until_ms`` is when the first target
    of a group that was empty is computed.
    """

    type_name: ClassVar[str] = STREAMS
    protocol_type_name: ClassVar[str] = STREAMS
    idle_since_ms: ClassVar[None] = None
    """None: even in an empty group, each offset expires by its own commit time."""

    group_id: str
    metadata: GroupMetadata = NEW_GROUP
    assignment_epoch: int = FIRST_EPOCH
    assigned_ms: int = 0
    topology: Topology | None = None
    members: dict[str, StreamsGroupMember] = msgspec.field(default_factory=dict)
    static_members: dict[str, str] = msgspec.field(default_factory=dict)
    targets: dict[str, Tasks] = msgspec.field(default_factory=dict)
    holders: Holders = msgspec.field(default_factory=Holders)

    configured: ConfiguredTopology | None = None
    configured_hash: int = 0
    task_offsets: dict[str, MemberTaskOffsets] = msgspec.field(default_factory=dict)
    shutdown_member_id: str | None = None
    """The member that requested a shutdown of the whole application."""
    endpoint_epoch: int = 0
    """The epoch rises when another member serves some partitions for interactive queries."""
    sessions_ms: dict[str, int] = msgspec.field(default_factory=dict)
    revocations_ms: dict[str, int] = msgspec.field(default_factory=dict)
    delayed_until_ms: int | None = None
    wake_ms: int | None = None
    """The time of the next check of the group's deadlines, never later than the earliest deadline."""
    due_ms: int | None = None
    """The earliest deadline set since ``wake_ms`` was computed. It may be before ``wake_ms``."""

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.metadata.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.metadata.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    # implementing `GroupView`, for offsets, listings and deletions

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_forgettable(self) -> bool:
        return self.is_empty

    def topics_in_use(self) -> Collection[str]:
        """Return the topics that the topology reads, while the group has members."""
        return set() if self.is_empty or self.topology is None else self.topology.source_topics()

    def check_offset_delete(self) -> None:
        """Allow OffsetDelete. `GroupShard` refuses the topics of `topics_in_use`."""

    def tombstones(self) -> list[LogRecord]:
        return group_tombstones(self.group_id, self.members)

    def tombstones_of(self, member_id: str) -> list[LogRecord]:
        return RECORDS.member_tombstones(self.group_id, member_id)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, has_new_error_codes: bool
    ) -> CommitCheck | None:
        """Check a commit, which a member may make at its own epoch (StreamsGroup.validateOffsetCommit).

        At an older epoch, a member may commit for active tasks that it has held since that epoch or longer (KIP-1251).
        """
        if epoch < 0 and not self.members:
            return None
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = known_member(self, member_id)
        if not transactional and not has_new_error_codes:
            raise KafkaError(Code.UNSUPPORTED_VERSION, "Members of streams groups commit by OffsetCommit 9 and later.")
        # Clients whose version of TxnOffsetCommit lacks STALE_MEMBER_EPOCH get ILLEGAL_GENERATION.
        stale = Code.STALE_MEMBER_EPOCH if has_new_error_codes else Code.ILLEGAL_GENERATION
        if epoch > member.member_epoch:
            raise KafkaError(stale, f"The member epoch {epoch} is newer than the member's, which is {member.member_epoch}.")
        return None if epoch == member.member_epoch else self._epoch_check(member, epoch, stale)

    def _epoch_check(self, member: StreamsGroupMember, epoch: int, stale: Code) -> CommitCheck:
        topology = self.topology

        def check(topic_id: bytes | None, topic: str, partition: int) -> None:
            subtopology = None if topology is None else topology.subtopology_of(topic)
            if subtopology is None:
                raise KafkaError(stale, f"Topic {topic} is not read by the group's topology.")
            since = member.assigned.active.get(subtopology, {}).get(partition)
            if since is None:
                since = member.revoking.active.get(subtopology, {}).get(partition)
            if since is None:
                raise KafkaError(stale, f"The member does not have task {subtopology}_{partition}.")
            if epoch < since:
                message = f"The member epoch {epoch} is older than that of task {subtopology}_{partition}, which is {since}."
                raise KafkaError(stale, message)

        return check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH for a client with a wrong member id or epoch."""
        if member_id is None and epoch < 0:
            return
        member = known_member(self, "" if member_id is None else member_id)
        if epoch != member.member_epoch:
            raise KafkaError(Code.STALE_MEMBER_EPOCH, f"The member epoch is {member.member_epoch}, not {epoch}.")

    # replaying records

    def replay(self, kind: int, key: Any, value: bytes | None, now_ms: int) -> None:
        """Replay the group's metadata, or its topology or the topology's tombstone."""
        if kind == TOPOLOGY:
            self.topology = None if value is None else read_topology(value)
            self.configured = None
        elif value is not None:
            self.metadata = read_metadata(value)

    def put(self, member: StreamsGroupMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        track_static(self.static_members, old, member)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        self.holders.hold(member.process_id, member.assigned)
        self.holders.hold(member.process_id, member.revoking)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        track_static(self.static_members, member, None)
        self._release(member)
        for kept in (self.sessions_ms, self.revocations_ms, self.task_offsets):
            kept.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = None

    def _release(self, member: StreamsGroupMember) -> None:
        self.holders.release(member.process_id, member.assigned)
        self.holders.release(member.process_id, member.revoking)

    # setting and reading deadlines

    @property
    def deadlines_ms(self) -> tuple[dict[str, int], ...]:
        return self.sessions_ms, self.revocations_ms

    def delay_until(self, deadline_ms: int) -> None:
        self.delayed_until_ms = deadline_ms
        note_due(self, deadline_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest time at which a deadline may change the group. It may be in the past."""
        deadlines = (earliest_deadline_ms(self), self.delayed_until_ms)
        return min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)
