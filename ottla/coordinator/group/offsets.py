"""Committed and pending offsets (org.apache.kafka.coordinator.group.OffsetMetadataManager).

An offset that is committed in a transaction is pending under its producer id until the transaction's marker (KIP-447).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping
from typing import NamedTuple

from ottla.coordinator.group.records import CommittedOffset, OffsetKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.topic_partition import TopicPartition


class GroupOffsets(NamedTuple):
    """The committed offsets of a group, and the keys of the offsets that an open transaction may still change."""

    group_id: str
    committed: Mapping[TopicPartition, CommittedOffset]
    unstable: Container[OffsetKey]

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset, or None. Raises UNSTABLE_OFFSET_COMMIT if an open transaction may change it."""
        if (self.group_id, topic, partition) in self.unstable:
            raise KafkaError(Code.UNSTABLE_OFFSET_COMMIT)
        return self.committed.get((topic, partition))


class OffsetStore:
    """The offsets of one shard, by group, by producer id and by topic."""

    __slots__ = ("_by_group", "_by_topic", "_pending", "_pending_keys")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        # Group id -> key -> number of producers with a pending offset.
        self._pending_keys: dict[str, Counter[OffsetKey]] = {}
        # Topic -> keys with a committed or pending offset, in the order of their first commit.
        self._by_topic: dict[str, dict[OffsetKey, None]] = {}

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return self._by_group.get(group_id, {})

    @property
    def groups(self) -> list[str]:
        return list(self._by_group)

    @property
    def pending(self) -> dict[int, dict[OffsetKey, CommittedOffset]]:
        return self._pending

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether an open transaction may still change this offset."""
        return key in self._pending_keys.get(key[0], ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._pending_keys

    def pending_of(self, group_id: str) -> Collection[OffsetKey]:
        """Return the keys of the group's offsets that an open transaction may still change."""
        return self._pending_keys.get(group_id, {}).keys()

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """Return the keys of a topic's committed and pending offsets in all groups."""
        return list(self._by_topic.get(topic, ()))

    def record_offsets(self, key: OffsetKey) -> Iterator[int]:
        """Yield the log offsets of the records with this key's committed and pending offsets."""
        committed = self.of_group(key[0]).get(key[1:])
        if committed is not None:
            yield committed.record_offset
        if self.is_unstable(key):
            yield from (keys[key].record_offset for keys in self._pending.values() if key in keys)

    # replaying commits, tombstones and markers

    def put(self, key: OffsetKey, committed: CommittedOffset, producer_id: int) -> None:
        """Replay a commit. The offset is pending if the commit belongs to a transaction."""
        if producer_id >= 0:
            keys = self._pending.setdefault(producer_id, {})
            if key not in keys:
                self._pending_keys.setdefault(key[0], Counter())[key] += 1
            keys[key] = committed
        else:
            self._by_group.setdefault(key[0], {})[key[1:]] = committed
        self._by_topic.setdefault(key[1], {})[key] = None

    def remove(self, key: OffsetKey) -> None:
        """Replay a tombstone, which removes the committed offset and all pending offsets."""
        group = self._by_group.get(key[0])
        if group is not None:
            group.pop(key[1:], None)
            if not group:
                del self._by_group[key[0]]
        if self.is_unstable(key):
            for producer_id, keys in list(self._pending.items()):
                if keys.pop(key, None) is not None:
                    self._no_longer_pending(key)
                if not keys:
                    del self._pending[producer_id]
        self._forget_if_gone(key)

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """Replay a marker. If a key has a pending and a non-transactional offset, the later commit in the log wins."""
        for key, pending in self._pending.pop(producer_id, {}).items():
            self._no_longer_pending(key)
            if not commit:
                self._forget_if_gone(key)
                continue
            group = self._by_group.setdefault(key[0], {})
            current = group.get(key[1:])
            if current is None or current.record_offset < pending.record_offset:
                group[key[1:]] = pending

    def _no_longer_pending(self, key: OffsetKey) -> None:
        keys = self._pending_keys[key[0]]
        keys[key] -= 1
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._pending_keys[key[0]]

    def _forget_if_gone(self, key: OffsetKey) -> None:
        topic = self._by_topic.get(key[1])
        if topic is None or self.is_unstable(key) or key[1:] in self._by_group.get(key[0], ()):
            return
        topic.pop(key, None)
        if not topic:
            del self._by_topic[key[1]]

    # expiring offsets

    def expired(
        self, group_id: str, now_ms: int, retention_ms: int, idle_since_ms: int | None, in_use: Collection[str]
    ) -> list[OffsetKey]:
        """Return the keys of the group's offsets that were unused for the retention time (OffsetExpirationConditionImpl)."""
        expired_keys = []
        for (topic, partition), committed in self.of_group(group_id).items():
            key = (group_id, topic, partition)
            if topic in in_use or self.is_unstable(key):
                continue
            if committed.expire_ms >= 0:
                due = committed.expire_ms <= now_ms
            else:
                since = committed.commit_ms if idle_since_ms is None else max(idle_since_ms, committed.commit_ms)
                due = now_ms - since >= retention_ms
            if due:
                expired_keys.append(key)
        return expired_keys
