"""A shard of consumer groups without a broker: its log, its topics, its clock, and the members' own view."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla.coordinator.result import LogRecord, Result
from ottla.storage.steps import run

GROUP = "g"
BATCH_BYTES = 1 << 19


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


@dataclass
class FakeTopics:
    """Partition counts by topic; ids say the names."""

    counts: dict[str, int] = field(default_factory=dict)

    def topic_id(self, name: str) -> bytes | None:
        return topic_id(name) if name in self.counts else None

    def topic_name(self, topic_id: bytes) -> str | None:
        name = topic_id.rstrip(b"\0").decode()
        return name if name in self.counts else None

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def topic_names(self) -> Collection[str]:
        return list(self.counts)


def in_turn(members: Mapping[str, AssignorMember], counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """A trivial assignor: the partitions of each topic in turn to those that subscribe to it, by member id."""
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
    """What a client knows: it owns what it was told last."""

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
class World:
    topics: FakeTopics = field(default_factory=lambda: FakeTopics({"t": 4}))
    config: ConsumerGroupConfig = field(
        default_factory=lambda: ConsumerGroupConfig(assignors={"uniform": in_turn, "range": all_to_first})
    )
    now_ms: int = 1_000_000
    log: list[LogRecord] = field(default_factory=list)
    ids: int = 0

    def __post_init__(self) -> None:
        self.shard = self._new()

    def _new(self) -> ConsumerGroups:
        return ConsumerGroups(lambda group_id: self.config, self.topics, self._id)

    def _id(self) -> str:
        self.ids += 1
        return f"id-{self.ids}"

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.groups[GROUP]

    def run(self, result: Result[Any]) -> Any:
        for record in result.records:
            self.log.append(record)
            replay(self.shard, record, self.now_ms)
        for effect in result.effects:
            self.shard.apply(effect)
        return result.response

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
        return ConsumerHeartbeat(**{**fields, **options})

    def beat(self, consumer: Consumer, **options: Any) -> ConsumerHeartbeatAnswer:
        """A heartbeat that says what the consumer owns; by ``options`` anything else."""
        answer: ConsumerHeartbeatAnswer = self.run(decided(self.shard, self.heartbeat_of(consumer, **options), self.now_ms))
        consumer.take(answer)
        return answer

    def join(self, consumer: Consumer, *topics: str, **options: Any) -> ConsumerHeartbeatAnswer:
        consumer.epoch, consumer.owned = 0, {}
        return self.beat(consumer, **{"topic_names": list(topics or ("t",)), "rebalance_timeout_ms": 30_000, **options})

    def leave(self, consumer: Consumer, epoch: int = -1) -> ConsumerHeartbeatAnswer:
        return self.beat(consumer, member_epoch=epoch, owned=None)

    def settle(self, *consumers: Consumer) -> None:
        """Heartbeats in turn until none of them changes anything."""
        for _ in range(20):
            before = len(self.log)
            for consumer in consumers:
                self.beat(consumer)
            if len(self.log) == before:
                return
        raise AssertionError("the group does not come to rest")

    def tick(self, ms: int) -> None:
        self.now_ms += ms
        for _, result in self.shard.tick(self.now_ms, BATCH_BYTES):
            self.run(result)

    def reloaded(self) -> ConsumerGroups:
        shard = self._new()
        for record in self.log:
            replay(shard, record, self.now_ms)
        return shard


def decided(shard: ConsumerGroups, beat: ConsumerHeartbeat, now_ms: int) -> Result[ConsumerHeartbeatAnswer]:
    """A heartbeat's decision, with the steps before it."""
    return shard.heartbeat(beat, now_ms, run(shard.expansions(beat)))


def replay(shard: ConsumerGroups, record: LogRecord, now_ms: int) -> None:
    assert record.key is not None
    shard.replay(int.from_bytes(record.key[:2], "big"), record.key, record.value, now_ms)


def logged(shard: ConsumerGroups) -> dict[str, tuple[Any, ...]]:
    """What the log tells of all groups."""
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
