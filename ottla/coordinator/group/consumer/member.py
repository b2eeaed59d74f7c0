"""A member of a consumer group (ConsumerGroupMember of Kafka)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

UNKNOWN_TIMEOUT_MS = -1
"""Of a member whose metadata record was not read yet. Who joins says what it is."""


class ConsumerMemberState(IntEnum):
    """Numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has not said yet that it has given up what it has to give up."""
    UNRELEASED_PARTITIONS = 2
    """Partitions of its target are still with other members."""
    UNKNOWN = 127


HeldPartitions = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition: the epoch at which the member got it, by which its commits are judged (KIP-1251)."""


class ClassicMember(msgspec.Struct, frozen=True):
    """What a member of the classic protocol has said in its JoinGroup. ``protocols`` are names and metadata, as it prefers them."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerGroupMember(msgspec.Struct, frozen=True):
    """Everything that the log tells of one member. A change is another `ConsumerGroupMember`.

    ``member_epoch`` is the target assignment's epoch that the member has got to; -2 for a static member that is away.
    ``assigned`` is what the member may consume, ``revoking`` what it has been told to give up. ``classic`` is None for a member
    that uses the consumer protocol; to one that uses the classic protocol its epoch is the generation.
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
        """All that it subscribes to, with the topics that regular expressions stand for."""
        named = regexes.get(self.topic_regex) if self.topic_regex else None
        return self.topic_names | named if named else self.topic_names

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is ConsumerMemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which the member got a partition that it holds, also one that it is to give up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch


def is_subset(owned: Mapping[bytes, frozenset[int]] | None, assigned: HeldPartitions) -> bool:
    """Whether a member says what it owns, and owns no more than it was assigned."""
    return owned is not None and all(
        topic in assigned and partitions <= assigned[topic].keys() for topic, partitions in owned.items()
    )
