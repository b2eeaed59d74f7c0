"""A shard of consumer groups without a broker, and clients that keep the state of a group member."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla.coordinator.result import Result
from ottla.protocol.steps import run
from tests.coordinator.group_world import GROUP, FakeTopics, HeartbeatGroupsWorld, topic_id
from tests.coordinator.heartbeats import consumer_heartbeat


def in_turn(members: Mapping[str, AssignorMember], counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """A trivial assignor: distributes the partitions of each topic round-robin to its subscribers, in order of member ids."""
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member: {} for member in members}
    for topic, count in counts.items():
        takers = sorted(m for m, member in members.items() if topic in member.subscribed)
        for at, member in enumerate(takers):
            partitions = frozenset(range(at, count, len(takers)))
            if partitions:
                assigned[member][topic] = partitions
    return dict(assigned)


def all_to_first(members: Mapping[str, AssignorMember], counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    first = min(members, default=None)
    return {m: {t: frozenset(range(n)) for t, n in counts.items()} if m == first else {} for m in members}


@dataclass
class Consumer:
    """The client-side state of a consumer group member, which owns the partitions of its last response."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[bytes, frozenset[int]] = field(default_factory=dict)

    def take(self, answer: ConsumerHeartbeatAnswer) -> None:
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            self.owned = {t: frozenset(epochs) for t, epochs in answer.assignment.items()}

    def owns(self, topic: str = "t") -> set[int]:
        return set(self.owned.get(topic_id(topic), ()))


@dataclass
class ConsumerGroupWorld(HeartbeatGroupsWorld[ConsumerGroups]):
    topics: FakeTopics = field(default_factory=lambda: FakeTopics({"t": 4}))
    config: ConsumerGroupConfig = field(
        default_factory=lambda: ConsumerGroupConfig(assignors={"uniform": in_turn, "range": all_to_first})
    )

    def new_shard(self) -> ConsumerGroups:
        return ConsumerGroups(lambda group_id: self.config, self.topics, self.new_id)

    def logged(self, shard: ConsumerGroups) -> dict[str, tuple[Any, ...]]:
        return logged(shard)

    def snapshot(self) -> Any:
        groups = self.shard.groups.values()
        return copy.deepcopy((logged(self.shard), [(g.sessions_ms, g.revocations_ms, g.is_stale) for g in groups]))

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.groups[GROUP]

    def heartbeat_of(self, consumer: Consumer, **options: Any) -> ConsumerHeartbeat:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": consumer.member_id,
            "member_epoch": consumer.epoch,
            "instance_id": consumer.instance_id,
            "owned": consumer.owned,
            "client_id": "client",
            "client_host": "/host",
        }
        given = {**fields, **options}
        return consumer_heartbeat(given.pop("group_id"), given.pop("member_id"), given.pop("member_epoch"), **given)

    def beat(self, consumer: Consumer, **options: Any) -> ConsumerHeartbeatAnswer:
        """Send a heartbeat with the consumer's state. ``options`` override fields of the request."""
        answer: ConsumerHeartbeatAnswer = self.run(decided(self.shard, self.heartbeat_of(consumer, **options), self.now_ms))
        consumer.take(answer)
        return answer

    def join(self, consumer: Consumer, *topics: str, **options: Any) -> ConsumerHeartbeatAnswer:
        consumer.epoch, consumer.owned = 0, {}
        return self.beat(consumer, **{"topic_names": list(topics or ("t",)), "rebalance_timeout_ms": 30_000, **options})

    def leave(self, consumer: Consumer, epoch: int = -1) -> ConsumerHeartbeatAnswer:
        return self.beat(consumer, member_epoch=epoch, owned=None)


def decided(shard: ConsumerGroups, beat: ConsumerHeartbeat, now_ms: int) -> Result[ConsumerHeartbeatAnswer]:
    """Expand the regular expressions that a heartbeat needs, then return the result of the heartbeat."""
    return shard.heartbeat(beat, now_ms, run(shard.expansions(beat)))


def logged(shard: ConsumerGroups) -> dict[str, tuple[Any, ...]]:
    """Return the state of all consumer groups that a shard restores from its log."""
    return {
        g.group_id: (
            g.group_epoch,
            g.metadata_hash,
            g.assignment_epoch,
            g.assigned_ms,
            g.members,
            g.static_members,
            g.targets,
            g.holders,
            dict(g.subscribers),
            dict(g.assignors),
            dict(g.regex_subscribers),
            dict(g.regexes),
            sorted(g.sessions_ms),
            sorted(g.revocations_ms),
            g.state,
        )
        for g in shard.groups.values()
    }
