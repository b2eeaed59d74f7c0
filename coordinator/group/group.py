"""A classic group and its members (org.apache.kafka.coordinator.group.classic.ClassicGroup)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from coordinator.result import Waiter
from protocol.errors import Code, KafkaError


class GroupState(Enum):
    """Values are what Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


G = GroupState

VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    G.EMPTY: frozenset({G.PREPARING_REBALANCE}),
    G.PREPARING_REBALANCE: frozenset({G.STABLE, G.COMPLETING_REBALANCE, G.EMPTY}),
    G.COMPLETING_REBALANCE: frozenset({G.PREPARING_REBALANCE}),
    G.STABLE: frozenset({G.COMPLETING_REBALANCE}),
    G.DEAD: frozenset({G.STABLE, G.PREPARING_REBALANCE, G.COMPLETING_REBALANCE, G.EMPTY}),
}


class IllegalGroupTransition(Exception):
    """A bug: a move that the table does not have."""


Protocols = list[tuple[str, bytes]]


@dataclass(slots=True)
class Member:
    """One member. ``join_waiter`` and ``sync_waiter`` hold its parked requests; deadlines are in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    join_waiter: Waiter | None = None
    sync_waiter: Waiter | None = None
    deadline_ms: int = 0

    @property
    def is_waiting(self) -> bool:
        return self.join_waiter is not None or self.sync_waiter is not None

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


@dataclass(slots=True)
class Group:
    """One group. ``pending`` are member ids that were handed out and not used yet, with their deadlines."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)
    state_since_ms: int = -1
    rebalance_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    is_initial_rebalance: bool = False

    def move(self, state: GroupState, now_ms: int) -> None:
        if self.state not in VALID_PREVIOUS[state]:
            raise IllegalGroupTransition(f"{self.group_id}: {self.state.value} -> {state.value}")
        self.state = state
        self.state_since_ms = now_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending and all(m.join_waiter is not None for m in self.members.values())

    def add(self, member: Member) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        self.pending_sync.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def accepts(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member with these protocols fits in (ClassicGroup.supportsProtocols)."""
        if not self.members:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and bool(names & self.common_protocols())

    def common_protocols(self) -> set[str]:
        sets = [{name for name, _ in m.protocols} for m in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def select_protocol(self) -> str | None:
        """The protocol with most votes; each member votes for the first of its own that all share."""
        common = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next((name for name, _ in member.protocols if name in common), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else None

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined again, else take another that has; False when none has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_waiter is not None:
            return True
        for member in self.members.values():
            if member.join_waiter is not None:
                self.leader = member.member_id
                return True
        return False

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Raises UNKNOWN_MEMBER_ID or, for a static member that was replaced, FENCED_INSTANCE_ID."""
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
