"""Group coordinators without a broker: fake topics, and base classes for test worlds of groups of any protocol."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.member_ids import MemberIds
from ottla.coordinator.group.requests import GroupConfig
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.result import Effect, LogRecord, Result
from tests.support.world import ShardWorld

GROUP = "g"
BATCH_BYTES = 1 << 19
MARKER = LogRecord(None, None)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")[:16]


@dataclass
class FakeTopics:
    """Topics that exist in a test, with their partition counts. A topic id is derived from the topic's name."""

    counts: dict[str, int] = field(default_factory=dict)

    def topic_id(self, name: str) -> bytes | None:
        return topic_id(name) if name in self.counts else None

    def topic_name(self, wanted: bytes) -> str | None:
        return next((name for name in self.counts if topic_id(name) == wanted), None)

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def topic_names(self) -> Collection[str]:
        return list(self.counts)


class Groups(Protocol):
    def apply(self, effect: Any) -> None: ...

    def tick(self, now_ms: int, max_batch_bytes: int) -> Iterator[tuple[str, Result[None]]]: ...


class HeartbeatGroups(Groups, Protocol):
    """The interface that consumer groups, share groups and streams groups have in common."""

    @property
    def groups(self) -> Mapping[str, Any]: ...

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> Any: ...


G = TypeVar("G", bound=Groups)
H = TypeVar("H", bound=HeartbeatGroups)


class GroupsWorld(ShardWorld[G]):
    """A shard of groups, with deadlines that depend on the simulated clock."""

    shard: G

    def apply(self, effect: Effect) -> None:
        self.shard.apply(effect)

    def tick(self, ms: int = 0) -> None:
        self.now_ms += ms
        for _, result in self.shard.tick(self.now_ms, BATCH_BYTES):
            self.run(result)


class HeartbeatGroupsWorld(GroupsWorld[H]):
    """Groups of one heartbeat-based protocol: consumer (KIP-848), share (KIP-932) or streams groups (KIP-1071)."""

    def replay(self, shard: H, record: LogRecord, offset: int) -> None:
        assert record.key is not None
        shard.replay(int.from_bytes(record.key[:2], "big"), record.key, record.value, self.now_ms)

    def beat(self, client: Any, /, **options: Any) -> Any:
        raise AssertionError("a subclass must implement the heartbeat")

    def settle(self, *clients: Any) -> None:
        """Let the clients send heartbeats one after the other until no heartbeat writes a record."""
        for _ in range(20):
            before = len(self.log)
            for client in clients:
                self.beat(client)
            if len(self.log) == before:
                return
        raise AssertionError("the group did not become stable")


@dataclass
class GroupShardWorld(GroupsWorld[GroupShard]):
    """A shard with groups of all protocols and their offsets. As in Kafka, a transaction marker occupies an offset in the log."""

    changes_without_records = True

    config: GroupConfig = field(default_factory=GroupConfig)
    topics: FakeTopics = field(default_factory=FakeTopics)
    markers: dict[int, tuple[int, bool]] = field(default_factory=dict, kw_only=True)

    def new_shard(self) -> GroupShard:
        return GroupShard(0, self.config, self.topics, MemberIds(self.new_id, self.new_id))

    def replay(self, shard: GroupShard, record: LogRecord, offset: int) -> None:
        if offset in self.markers:
            producer_id, commit = self.markers[offset]
            shard.replay_marker(producer_id, commit=commit)
        else:
            shard.replay(record, offset, self.producer_ids.get(offset, -1), self.now_ms)

    def mark(self, producer_id: int, *, commit: bool) -> None:
        """Write the marker that ends a transaction."""
        self.markers[len(self.log)] = producer_id, commit
        self.run(Result(None, [MARKER]))

    def snapshot(self) -> Any:
        """Return the state without the queue of deadlines, because a deadline whose append failed fires again."""
        shard = self.shard
        groups = {
            i: [getattr(g, f) for f in ClassicGroup.__struct_fields__ if f not in ("wake_ms", "due_ms")]
            for i, g in shard.groups.items()
        }
        copied = {i: [v.copy() if isinstance(v, dict | set) else v for v in values] for i, values in groups.items()}
        return copied, *_offsets(shard), shard.group_ids(), copy.deepcopy(shard.consumers.groups)

    def logged(self, shard: GroupShard) -> Any:
        """Return the offsets, and the state of the classic groups that are not in a rebalance."""
        settled = {
            i: (g.generation, g.state, list(g.members), g.assignments, dict(g.static_members))
            for i, g in shard.groups.items()
            if g.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY) and g.generation
        }
        return settled, *_offsets(shard)

    def check_reloaded(self) -> GroupShard:
        """Reload the shard and compare it with the live state, except rebalances that began after a classic group's last record."""
        again = self.reloaded()
        live, loaded = self.logged(self.shard), self.logged(again)
        assert {group_id: loaded[0].get(group_id) for group_id in live[0]} == live[0]
        assert loaded[1:] == live[1:]
        assert set(again.group_ids()) <= set(self.shard.group_ids())
        return again


def _offsets(shard: GroupShard) -> tuple[Any, Any]:
    offsets = shard.offsets
    return {g: dict(offsets.of_group(g)) for g in offsets.groups}, {p: dict(keys) for p, keys in offsets.pending.items()}
