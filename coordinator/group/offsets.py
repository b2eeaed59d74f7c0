"""Committed and pending offsets (org.apache.kafka.coordinator.group.OffsetMetadataManager).

An offset committed in a transaction is pending under its producer id until the marker decides (KIP-447).
"""

from __future__ import annotations

from coordinator.group.records import CommittedOffset, OffsetKey

TopicPartition = tuple[str, int]


class OffsetStore:
    """The offsets of one shard, by group and by producer id."""

    __slots__ = ("_by_group", "_pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return self._by_group.get(group_id, {})

    @property
    def groups(self) -> list[str]:
        return list(self._by_group)

    @property
    def pending(self) -> dict[int, dict[OffsetKey, CommittedOffset]]:
        return self._pending

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether an open transaction may still move this offset."""
        return any(key in keys for keys in self._pending.values())

    def has_pending(self, group_id: str) -> bool:
        return any(key[0] == group_id for keys in self._pending.values() for key in keys)

    def put(self, key: OffsetKey, committed: CommittedOffset, producer_id: int) -> None:
        """Replay a commit: at once outside a transaction, pending inside one."""
        if producer_id >= 0:
            self._pending.setdefault(producer_id, {})[key] = committed
        else:
            self._by_group.setdefault(key[0], {})[key[1:]] = committed

    def remove(self, key: OffsetKey) -> None:
        """Replay a tombstone: committed and pending alike go."""
        group = self._by_group.get(key[0])
        if group is not None:
            group.pop(key[1:], None)
            if not group:
                del self._by_group[key[0]]
        for producer_id, keys in list(self._pending.items()):
            keys.pop(key, None)
            if not keys:
                del self._pending[producer_id]

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """Replay a marker. A plain commit that stands later in the log than a pending one wins."""
        for key, pending in self._pending.pop(producer_id, {}).items():
            if not commit:
                continue
            group = self._by_group.setdefault(key[0], {})
            current = group.get(key[1:])
            if current is None or current.record_offset < pending.record_offset:
                group[key[1:]] = pending

    def expired(
        self, group_id: str, now_ms: int, retention_ms: int, idle_since_ms: int | None, in_use: set[str]
    ) -> list[OffsetKey]:
        """Offsets of a group that nobody has used for the retention time (OffsetExpirationConditionImpl)."""
        found = []
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
                found.append(key)
        return found
