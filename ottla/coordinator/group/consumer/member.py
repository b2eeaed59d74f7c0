"""A member of a consumer group (ConsumerGroupMember of Kafka)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from ottla.coordinator.group.modern.group import UNKNOWN_TIMEOUT_MS


class ConsumerMemberState(IntEnum):
    """The state of a member. The numbers occur in Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has not confirmed yet that it no longer owns the partitions that it must give up."""
    UNRELEASED_PARTITIONS = 2
    """Other members still hold partitions of this member's target."""
    UNKNOWN = 127


HeldPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> member epoch at which the member got the partition, for the check of commits (KIP-1251)."""


class ClassicMember(msgspec.Struct, frozen=True):
    """The JoinGroup data of a classic member. ``protocols`` are names with metadata, the preferred protocol first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerGroupMember(msgspec.Struct, frozen=True):
    """One member as the log describes it. Immutable: a changed member is another object.

    ``member_epoch`` is the epoch of the target assignment that the member has reached, or -2 for a static member that has left
    temporarily. ``assigned`` are the partitions that the member may consume, ``revoking`` partitions that it must give up.
    ``classic`` is None for a member that uses the consumer protocol. For a member of the classic protocol the member epoch is the
    generation.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = UNKNOWN_TIMEOUT_MS
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    member_epoch: int = 0
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: HeldPartitions = {}
    revoking: HeldPartitions = {}
    classic: ClassicMember | None = None

    def topics(self, regexes: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """Return the subscribed topics, by name and by regular expression."""
        named = regexes.get(self.topic_regex) if self.topic_regex else None
        return self.topic_names | named if named else self.topic_names

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is ConsumerMemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch at which the member got a partition that it holds or must give up, or None for another partition."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch


def is_subset(owned: Mapping[bytes, frozenset[int]] | None, assigned: HeldPartitions) -> bool:
    """Whether a member lists its partitions (``owned`` is not None), and lists no partition outside its assignment."""
    return owned is not None and all(
        topic in assigned and partitions <= assigned[topic].keys() for topic, partitions in owned.items()
    )
