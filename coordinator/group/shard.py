"""One partition of ``__consumer_offsets``: its groups and their offsets (GroupCoordinatorShard)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coordinator.group.group import Group, GroupState
from coordinator.group.membership import Membership
from coordinator.group.offsets import OffsetStore, TopicPartition
from coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    group_tombstone,
    offset_record,
    offset_tombstone,
    read_group,
    read_key,
    read_offset,
    subscribed_topics,
)
from coordinator.group.requests import GroupConfig
from coordinator.result import LogRecord, Result
from protocol.errors import Code, KafkaError


class GroupShard:
    """Commands answer with `Result`; ``replay`` and ``replay_marker`` move offsets."""

    def __init__(self, partition: int, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.partition = partition
        self.config = config
        self._new_id = new_id
        self.clear()

    def clear(self) -> None:
        """Forget everything, as before the first record."""
        self.membership = Membership(self.config, self._new_id)
        self.offsets = OffsetStore()

    @property
    def groups(self) -> dict[str, Group]:
        return self.membership.groups

    # offsets

    def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: dict[TopicPartition, CommittedOffset],
        now_ms: int,
        *,
        transactional: bool,
    ) -> Result[dict[TopicPartition, Code]]:
        """OffsetCommit and TxnOffsetCommit. Raises what refuses the whole request."""
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                # A group that only holds offsets exists, and has no members.
                is_known = bool(self.offsets.of_group(group_id)) or self.offsets.has_pending(group_id)
                raise KafkaError(Code.UNKNOWN_MEMBER_ID if is_known else Code.ILLEGAL_GENERATION)
        else:
            self._check_commit(group, generation, member_id, instance_id, transactional)
            member = group.members.get(member_id)
            if member is not None:
                member.deadline_ms = max(member.deadline_ms, now_ms + member.session_timeout_ms)
        codes: dict[TopicPartition, Code] = {}
        records: list[LogRecord] = []
        for partition, offset in offsets.items():
            if len(offset.metadata.encode()) > self.config.offset_metadata_max_bytes:
                codes[partition] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            records.append(offset_record((group_id, *partition), offset))
            codes[partition] = Code.NONE
        return Result(codes, records)

    @staticmethod
    def _check_commit(group: Group, generation: int, member_id: str, instance_id: str | None, transactional: bool) -> None:
        """ClassicGroup.validateOffsetCommit."""
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            group.check_member(member_id, instance_id)
            if generation != group.generation:
                raise KafkaError(Code.ILLEGAL_GENERATION)
        elif not transactional and group.state is not GroupState.EMPTY:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
        if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(Code.REBALANCE_IN_PROGRESS)

    def fetch(self, group_id: str, topic: str, partition: int, *, require_stable: bool) -> CommittedOffset | None:
        """A committed offset. Raises UNSTABLE_OFFSET_COMMIT where a transaction may still move it."""
        if require_stable and self.offsets.is_unstable((group_id, topic, partition)):
            raise KafkaError(Code.UNSTABLE_OFFSET_COMMIT)
        return self.offsets.of_group(group_id).get((topic, partition))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Result[dict[TopicPartition, Code]]:
        group = self.groups.get(group_id)
        committed = self.offsets.of_group(group_id)
        if group is None and not committed:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND)
        subscribed: set[str] = set()
        if group is not None and group.members:
            topics = subscribed_topics(group)
            if topics is None:
                raise KafkaError(Code.NON_EMPTY_GROUP)
            subscribed = topics
        codes: dict[TopicPartition, Code] = {}
        records = []
        for key in partitions:
            if key[0] in subscribed:
                codes[key] = Code.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            codes[key] = Code.NONE
            if key in committed:
                records.append(offset_tombstone((group_id, *key)))
        return Result(codes, records)

    # groups

    def delete_group(self, group_id: str) -> Result[None]:
        group = self.groups.get(group_id)
        if group is None and not self.offsets.of_group(group_id):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND)
        if group is not None and group.state is not GroupState.EMPTY:
            raise KafkaError(Code.NON_EMPTY_GROUP)
        return Result(None, self._tombstones(group_id))

    def _tombstones(self, group_id: str) -> list[LogRecord]:
        keys: set[OffsetKey] = {(group_id, *p) for p in self.offsets.of_group(group_id)}
        keys |= {key for pending in self.offsets.pending.values() for key in pending if key[0] == group_id}
        return [offset_tombstone(key) for key in sorted(keys)] + [group_tombstone(group_id)]

    def expire_offsets(self, now_ms: int, at_once: int) -> Iterator[Result[None]]:
        """Tombstones for offsets that are past their retention, and for groups that hold nothing any more.

        In steps that each look at ``at_once`` groups at most.
        """
        group_ids = list(self.group_ids())
        for start in range(0, len(group_ids), at_once):
            yield Result(None, [record for g in group_ids[start : start + at_once] for record in self._expired(g, now_ms)])

    def _expired(self, group_id: str, now_ms: int) -> list[LogRecord]:
        group = self.groups.get(group_id)
        in_use: set[str] = set()
        idle_since_ms: int | None = None
        if group is not None and group.members:
            topics = subscribed_topics(group)
            if topics is None:
                return []
            in_use = topics
        elif group is not None and group.protocol_type is not None:
            idle_since_ms = group.state_since_ms
        keys = self.offsets.expired(group_id, now_ms, self.config.offsets_retention_ms, idle_since_ms, in_use)
        records = [offset_tombstone(key) for key in keys]
        remaining = len(self.offsets.of_group(group_id)) - len(keys)
        empty = group is None or (group.state is GroupState.EMPTY and not group.pending)
        if empty and remaining == 0 and not self.offsets.has_pending(group_id) and (group is None or group.generation > 0 or keys):
            records.append(group_tombstone(group_id))
        return records

    def forget_topics(self, topics: set[str]) -> Result[None]:
        """Tombstones for the offsets of deleted topics."""
        keys = {(g, t, p) for g in self.offsets.groups for t, p in self.offsets.of_group(g) if t in topics}
        keys |= {key for pending in self.offsets.pending.values() for key in pending if key[1] in topics}
        return Result(None, [offset_tombstone(key) for key in sorted(keys)])

    def group_ids(self) -> set[str]:
        return set(self.groups) | set(self.offsets.groups)

    # replay

    def replay(self, record: LogRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        """Raises `DecodeError` for a record of an unknown kind, which a start-up skips."""
        key = read_key(record.key)
        if isinstance(key, str):
            loaded = None if record.value is None else read_group(key, record.value, now_ms)
            self.membership.replay_group(key, loaded)
        elif record.value is None:
            self.offsets.remove(key)
        else:
            self.offsets.put(key, read_offset(record.value, record_offset), producer_id)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        self.offsets.complete(producer_id, commit=commit)
