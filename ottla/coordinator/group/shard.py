"""One partition of ``__consumer_offsets``: its groups and their offsets (GroupCoordinatorShard)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from ottla.coordinator.group.effects import ExtendSession
from ottla.coordinator.group.group import Group, GroupState
from ottla.coordinator.group.membership import Membership
from ottla.coordinator.group.offsets import GroupOffsets, OffsetStore, TopicPartition
from ottla.coordinator.group.records import (
    CONSUMER,
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
from ottla.coordinator.group.requests import GroupConfig
from ottla.coordinator.result import Effect, LogRecord, Result, in_batches
from ottla.protocol.errors import Code, KafkaError

NEWEST_COMMIT_RULES = 9
"""From this version of OffsetCommit on a member of a group that does not exist is told so (KIP-848)."""


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
        # Ids of the groups that have a group record or an offset in the log. A group with offsets only, which Kafka calls
        # simple, is Empty and stays until it is deleted or its offsets expire.
        self._logged: dict[str, None] = {}

    def apply(self, effect: Effect) -> None:
        """Make one change that is not in the log. Whatever decided upon it is in the log by now."""
        self.membership.apply(effect)

    @property
    def groups(self) -> dict[str, Group]:
        """Those that have, or had, members."""
        return self.membership.groups

    def exists(self, group_id: str) -> bool:
        return group_id in self.membership.groups or group_id in self._logged

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
        version: int = 0,
    ) -> Result[dict[TopicPartition, Code]]:
        """OffsetCommit, of this ``version``, and TxnOffsetCommit. Raises what refuses the whole request."""
        group = self.groups.get(group_id)
        if group is not None:
            self._check_commit(group, generation, member_id, instance_id, transactional)
        elif generation >= 0:
            if group_id in self._logged:
                raise KafkaError(Code.UNKNOWN_MEMBER_ID)
            newest = not transactional and version >= NEWEST_COMMIT_RULES
            raise KafkaError(Code.GROUP_ID_NOT_FOUND if newest else Code.ILLEGAL_GENERATION)
        codes: dict[TopicPartition, Code] = {}
        records: list[LogRecord] = []
        for partition, offset in offsets.items():
            if len(offset.metadata.encode()) > self.config.offset_metadata_max_bytes:
                codes[partition] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            records.append(offset_record((group_id, *partition), offset))
            codes[partition] = Code.NONE
        return Result(codes, records=records, effects=[ExtendSession(group_id, member_id, now_ms)] if member_id else [])

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

    def fetch(self, group_id: str, *, require_stable: bool, is_kept: bool = False) -> GroupOffsets:
        """A group's offsets as they are now. Kept over steps (``is_kept``) they are a copy: a transaction shows as a whole."""
        committed = self.offsets.of_group(group_id)
        pending = self.offsets.pending_of(group_id) if require_stable else ()
        return GroupOffsets(group_id, dict(committed), set(pending)) if is_kept else GroupOffsets(group_id, committed, pending)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Result[dict[TopicPartition, Code]]:
        if not self.exists(group_id):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND)
        group = self.groups.get(group_id)
        committed = self.offsets.of_group(group_id)
        subscribed: set[str] | None = set()
        if group is not None and group.members:
            if group.protocol_type != CONSUMER:
                raise KafkaError(Code.NON_EMPTY_GROUP)
            subscribed = subscribed_topics(group)
        codes: dict[TopicPartition, Code] = {}
        records = []
        for key in partitions:
            if subscribed is None or key[0] in subscribed:
                # A subscription that cannot be read may be to any topic.
                codes[key] = Code.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            codes[key] = Code.NONE
            if key in committed:
                records.append(offset_tombstone((group_id, *key)))
        return Result(codes, records=records)

    # groups

    def offset_count(self, group_id: str) -> int:
        return len(self.offsets.of_group(group_id))

    def delete_group(self, group_id: str, at_most: int) -> Result[bool]:
        """Tombstones of ``at_most`` offsets, and if these were all the group's; says whether the group is gone then."""
        if not self.exists(group_id):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND)
        group = self.groups.get(group_id)
        if group is not None and group.state is not GroupState.EMPTY:
            raise KafkaError(Code.NON_EMPTY_GROUP)
        committed = self.offsets.of_group(group_id)
        only_pending = (key for key in self.offsets.pending_of(group_id) if key[1:] not in committed)
        # One more than goes into this batch tells whether it is the last.
        keys = list(islice(chain(((group_id, *p) for p in committed), only_pending), at_most + 1))
        is_last = len(keys) <= at_most
        del keys[at_most:]
        tombstones = [offset_tombstone(key) for key in keys]
        return Result(is_last, records=[*tombstones, group_tombstone(group_id)] if is_last else tombstones)

    def expire_offsets(self, now_ms: int, at_once: int, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Tombstones for offsets that are past their retention, and for groups that hold nothing any more.

        In steps that each look at ``at_once`` groups at most, and fit into a batch.
        """
        group_ids = self.group_ids()
        for start in range(0, len(group_ids), at_once):
            expired = [record for g in group_ids[start : start + at_once] for record in self._expired(g, now_ms)]
            for records in in_batches(expired, max_batch_bytes):
                yield Result(None, records=records)

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
        if empty and remaining == 0 and not self.offsets.has_pending(group_id) and group_id in self._logged:
            records.append(group_tombstone(group_id))
        return records

    def forget_topic(self, topic: str, before_offset: int, at_once: int, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Tombstones for the offsets of a deleted topic, as far as they were committed below ``before_offset`` of this log.

        What stands behind is of a topic that was made again under the same name. In steps that look at ``at_once`` offsets.
        """
        keys = self.offsets.keys_of_topic(topic)
        for start in range(0, len(keys), at_once):
            stale = [k for k in keys[start : start + at_once] if self._is_stale(k, before_offset)]
            for records in in_batches(map(offset_tombstone, stale), max_batch_bytes):
                yield Result(None, records=records)

    def _is_stale(self, key: OffsetKey, before_offset: int) -> bool:
        standings = list(self.offsets.standings(key))
        return bool(standings) and max(standings) < before_offset

    def group_count(self) -> int:
        """How many there are, at least."""
        return max(len(self._logged), len(self.groups))

    def group_ids(self) -> list[str]:
        """Every group, in the order in which they came."""
        return list(self._logged | dict.fromkeys(self.groups))

    # replay

    def replay(self, record: LogRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        """Raises `DecodeError` for a record of an unknown kind, which a start-up skips."""
        key = read_key(record.key)
        if not isinstance(key, str):
            # A tombstone, too, tells of a group: the record that it is for may be passed over by a start.
            self._logged[key[0]] = None
            if record.value is None:
                self.offsets.remove(key)
            else:
                self.offsets.put(key, read_offset(record.value, record_offset), producer_id)
            return
        self.membership.replay_group(key, None if record.value is None else read_group(key, record.value, now_ms))
        if record.value is None:
            self._logged.pop(key, None)
        else:
            self._logged[key] = None

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        self.offsets.complete(producer_id, commit=commit)
