"""A classic group and its members (org.apache.kafka.coordinator.group.classic.ClassicGroup)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from ottla.coordinator.result import Waiter
from ottla.protocol.errors import Code, KafkaError


class ClassicGroupState(Enum):
    """The state of a classic group. The values are the names that Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


G = ClassicGroupState

VALID_PREVIOUS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    G.EMPTY: frozenset({G.PREPARING_REBALANCE}),
    G.PREPARING_REBALANCE: frozenset({G.STABLE, G.COMPLETING_REBALANCE, G.EMPTY}),
    G.COMPLETING_REBALANCE: frozenset({G.PREPARING_REBALANCE}),
    G.STABLE: frozenset({G.COMPLETING_REBALANCE}),
    G.DEAD: frozenset({G.STABLE, G.PREPARING_REBALANCE, G.COMPLETING_REBALANCE, G.EMPTY}),
}


HANDED_OUT_WAIT_MS = 1_000
"""Time in ms that the first generation waits for clients that were given a member id and have not joined with it yet.

This time is added to group.initial.rebalance.delay.ms.
"""


class IllegalGroupTransition(Exception):
    """Raised for a forbidden change of a group's state: a bug."""


Protocols = list[tuple[str, bytes]]


class ClassicGroupMember(msgspec.Struct, frozen=True):
    """A member as described by its JoinGroup. `ClassicGroup` keeps its session, assignment and parked requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


class ClassicGroup(msgspec.Struct):
    """One classic group. Members are in the order in which they joined, because client-side assignors depend on it.

    ``deadlines_ms`` is when each member's session expires; a member with a parked request does not expire. ``pending`` maps member
    ids that were given to clients but not yet used to join (KIP-394) to their deadlines. ``pending_sync`` are members of the
    current generation that have not sent SyncGroup yet.
    """

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ClassicGroupMember] = msgspec.field(default_factory=dict)
    static_members: dict[str, str] = msgspec.field(default_factory=dict)
    assignments: dict[str, bytes] = msgspec.field(default_factory=dict)
    deadlines_ms: dict[str, int] = msgspec.field(default_factory=dict)
    join_waiters: dict[str, Waiter] = msgspec.field(default_factory=dict)
    sync_waiters: dict[str, Waiter] = msgspec.field(default_factory=dict)
    pending: dict[str, int] = msgspec.field(default_factory=dict)
    pending_sync: set[str] = msgspec.field(default_factory=set)
    supporters: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of members that support each protocol."""
    state_since_ms: int = -1
    rebalance_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    is_initial_rebalance: bool = False
    initial_delay_ms: int = 0
    """Time in ms by which each extension for new members prolongs the initial rebalance."""
    initial_wait_left_ms: int = 0
    """Total time in ms by which the initial rebalance may still be extended for new members."""
    has_newcomers: bool = False
    """Whether members joined since the deadline of the initial rebalance was set."""
    wake_ms: int | None = None
    """The time of the next check of the group's deadlines, never later than the earliest deadline."""
    due_ms: int | None = None
    """The earliest deadline set since ``wake_ms`` was computed. It may be before ``wake_ms``."""

    def copied(self) -> ClassicGroup:
        """Return a copy of the group as a draft: changing or dropping it does not change the group."""
        return msgspec.structs.replace(
            self,
            members=self.members.copy(),
            static_members=self.static_members.copy(),
            assignments=self.assignments.copy(),
            deadlines_ms=self.deadlines_ms.copy(),
            join_waiters=self.join_waiters.copy(),
            sync_waiters=self.sync_waiters.copy(),
            pending=self.pending.copy(),
            pending_sync=self.pending_sync.copy(),
            supporters=self.supporters.copy(),
        )

    def move(self, state: ClassicGroupState, now_ms: int) -> None:
        if self.state not in VALID_PREVIOUS[state]:
            raise IllegalGroupTransition(f"{self.group_id}: {self.state.value} -> {state.value}")
        self.state = state
        self.state_since_ms = now_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending and len(self.join_waiters) == len(self.members)

    @property
    def is_forgettable(self) -> bool:
        """Whether the group has no members and no record in the log."""
        return self.generation == 0 and not self.members and not self.pending

    # adding, replacing and removing members

    def add(self, member: ClassicGroupMember) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)

    def update(self, member: ClassicGroupMember) -> None:
        """Update a member that joined again, perhaps with other protocols and timeouts."""
        self._count(self.members[member.member_id], -1)
        self._count(member, 1)
        self.members[member.member_id] = member

    def replace(self, old_id: str, member: ClassicGroupMember) -> None:
        """Replace a static member, which now has another member id."""
        self._count(self.members[old_id], -1)
        self._count(member, 1)
        new_id = member.member_id
        self.members = {(new_id if key == old_id else key): (member if key == old_id else m) for key, m in self.members.items()}
        if old_id in self.assignments:
            self.assignments[new_id] = self.assignments.pop(old_id)
        self.deadlines_ms.pop(old_id, None)
        self.pending_sync.discard(old_id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id

    def remove(self, member_ids: Iterable[str]) -> None:
        """Remove members. The caller must respond to their parked requests."""
        for member_id in member_ids:
            member = self.members.pop(member_id)
            self._count(member, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
            self.assignments.pop(member_id, None)
            self.deadlines_ms.pop(member_id, None)
            self.pending_sync.discard(member_id)
        if self.leader not in self.members:
            self.leader = next(iter(self.members), None)

    def is_waiting(self, member_id: str) -> bool:
        return member_id in self.join_waiters or member_id in self.sync_waiters

    # choosing protocol and leader

    def _count(self, member: ClassicGroupMember, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self.supporters.get(name, 0) + by
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]

    def accepts(self, protocol_type: str, names: set[str]) -> bool:
        """Whether some protocol of ``names`` is supported by all members (ClassicGroup.supportsProtocols)."""
        if not self.members:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and any(self._is_common(name) for name in names)

    def _is_common(self, protocol: str) -> bool:
        return self.supporters.get(protocol) == len(self.members)

    def select_protocol(self) -> str | None:
        """Return the protocol with the most votes. Each member votes for the first of its protocols that all members support."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next((name for name, _ in member.protocols if self._is_common(name)), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else None

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it rejoined, else elect the first member that rejoined. Returns False if no member rejoined."""
        if self.leader in self.join_waiters:
            return True
        for member_id in self.members:
            if member_id in self.join_waiters:
                self.leader = member_id
                return True
        return False

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """Raise UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a static member that was replaced."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise KafkaError(Code.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(Code.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        return member

    # setting and reading the group's deadlines

    def note_due(self, deadline_ms: int) -> None:
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms

    def extend_session(self, member: ClassicGroupMember, now_ms: int) -> None:
        """Restart the session of a member that sent a request."""
        deadline_ms = now_ms + member.session_timeout_ms
        self.deadlines_ms[member.member_id] = deadline_ms
        self.note_due(deadline_ms)

    def hand_out(self, member_id: str, deadline_ms: int) -> None:
        """Store a member id that its client must join with before the deadline (KIP-394)."""
        self.pending[member_id] = deadline_ms
        self.note_due(deadline_ms)

    def set_rebalance_deadline(self, deadline_ms: int) -> None:
        self.rebalance_deadline_ms = deadline_ms
        self.note_due(deadline_ms)

    def begin_initial_wait(self, now_ms: int, delay_ms: int) -> None:
        """Set the deadline of an initial rebalance: ``delay_ms`` after the first member joined.

        New members may extend the deadline, up to the rebalance timeout of the first member.
        """
        self.is_initial_rebalance, self.has_newcomers, self.initial_delay_ms = True, False, delay_ms
        self.initial_wait_left_ms = max(self.rebalance_timeout_ms - delay_ms, 0) if delay_ms > 0 else 0
        self.set_rebalance_deadline(now_ms + delay_ms)

    def extend_initial_wait(self, now_ms: int) -> bool:
        """Extend the initial rebalance if members joined since its deadline was set. Returns whether it was extended.

        Corresponds to Kafka's tryCompleteInitialRebalanceElseSchedule.
        """
        if not self.is_initial_rebalance or not self.has_newcomers or not self.initial_wait_left_ms:
            return False
        self.has_newcomers = False
        self.set_rebalance_deadline(now_ms + min(self.initial_delay_ms, self.initial_wait_left_ms))
        self.initial_wait_left_ms = max(self.initial_wait_left_ms - self.initial_delay_ms, 0)
        return True

    def set_sync_deadline(self, deadline_ms: int) -> None:
        self.sync_deadline_ms = deadline_ms
        self.note_due(deadline_ms)

    def expired_members(self, now_ms: int) -> list[str]:
        return [m for m, deadline in self.deadlines_ms.items() if deadline <= now_ms and not self.is_waiting(m)]

    @property
    def join_deadline_ms(self) -> int:
        """The time when the rebalance completes without the missing members, in `ClassicGroupState.PREPARING_REBALANCE`."""
        assert self.rebalance_deadline_ms is not None
        waits = self.is_initial_rebalance and bool(self.pending)
        return self.rebalance_deadline_ms + (HANDED_OUT_WAIT_MS if waits else 0)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return the earliest time at which a deadline may change the group. It may be in the past."""
        candidates = [*self.pending.values()]
        candidates += [deadline for m, deadline in self.deadlines_ms.items() if not self.is_waiting(m)]
        if self.rebalance_deadline_ms is not None:
            candidates.append(self.rebalance_deadline_ms if self.rebalance_deadline_ms > now_ms else self.join_deadline_ms)
        if self.sync_deadline_ms is not None:
            candidates.append(self.sync_deadline_ms)
        return min(candidates, default=None)
