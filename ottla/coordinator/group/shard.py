"""One partition of ``__consumer_offsets``: its groups and their offsets (GroupCoordinatorShard of Kafka)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from ottla.coordinator.group.classic.effects import ExtendSession
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.membership import ClassicMembership
from ottla.coordinator.group.classic.view import ClassicView
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.consumer.records import RECORDS as CONSUMER_RECORDS
from ottla.coordinator.group.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla.coordinator.group.epochs import JOIN_EPOCH
from ottla.coordinator.group.member_ids import MemberIds
from ottla.coordinator.group.migration import Migration, Upgrade
from ottla.coordinator.group.modern.effects import ModernEffect
from ottla.coordinator.group.offsets import GroupOffsets, OffsetStore
from ottla.coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    group_record,
    kind_of,
    offset_record,
    offset_tombstone,
    read_group,
    read_key,
    read_offset,
)
from ottla.coordinator.group.requests import GroupConfig, JoinRequest, MigrationPolicy, SyncRequest
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.groups import ShareGroups
from ottla.coordinator.group.share.records import RECORDS as SHARE_RECORDS
from ottla.coordinator.group.share.requests import ShareHeartbeat, ShareHeartbeatOutcome
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.groups import StreamsGroups
from ottla.coordinator.group.streams.records import RECORDS as STREAMS_RECORDS
from ottla.coordinator.group.streams.requests import StreamsHeartbeat, StreamsHeartbeatOutcome
from ottla.coordinator.group.subscriptions import Expansions
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.group.view import GroupView
from ottla.coordinator.result import AnswerMember, Effect, LogRecord, Result, decided_in_batches
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.topic_partition import TopicPartition


class GroupShard:
    """Groups of all protocols, whose ids share one namespace, and their offsets.

    Commands return a `Result`; ``replay`` and ``replay_marker`` change the offsets. ``membership`` (classic groups), ``consumers``,
    ``streams`` and ``shares`` implement the protocols. Code for groups of any protocol uses `GroupView`.
    """

    def __init__(self, partition: int, config: GroupConfig, topics: GroupTopics, member_ids: MemberIds) -> None:
        self.partition = partition
        self.config = config
        self._topics = topics
        self._member_ids = member_ids
        self.clear()

    def clear(self) -> None:
        """Reset to the state before the first record."""
        self.membership = ClassicMembership(self.config, self._member_ids.classic)
        self._migration = Migration(self.config, self._topics)
        self.consumers = ConsumerGroups(self.config.consumer_of, self._topics, self._member_ids.consumer, self._migration)
        self.streams = StreamsGroups(self.config.streams_of, self._topics)
        self.shares = ShareGroups(self.config.share_of, self._topics)
        # Record type -> the groups that replay such records.
        self._modern_by_kind: dict[int, ConsumerGroups | StreamsGroups | ShareGroups] = {
            **dict.fromkeys(CONSUMER_RECORDS.keys, self.consumers),
            **dict.fromkeys(STREAMS_RECORDS.keys, self.streams),
            **dict.fromkeys(SHARE_RECORDS.keys, self.shares),
        }
        self.offsets = OffsetStore()
        # Ids of groups with a record or an offset in the log.
        self._logged: dict[str, None] = {}

    def apply(self, effect: Effect) -> None:
        """Change state in memory after the decision's records are in the log."""
        if isinstance(effect, ModernEffect):
            owner = next(one for one in (self.consumers, self.streams, self.shares) if effect.group_id in one.groups)
            owner.apply(effect)
        else:
            self.membership.apply(effect)

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        """The classic groups that have, or had, members."""
        return self.membership.groups

    def exists(self, group_id: str) -> bool:
        return group_id in self.membership.groups or group_id in self._logged

    def view(self, group_id: str) -> GroupView | None:
        """Return a group of any protocol, or None if it does not exist."""
        modern = self._modern(group_id)
        if modern is not None:
            return modern
        return ClassicView(group_id, self.groups.get(group_id)) if self.exists(group_id) else None

    def _modern(self, group_id: str) -> ConsumerGroup | StreamsGroup | ShareGroup | None:
        return self.consumers.groups.get(group_id) or self.streams.groups.get(group_id) or self.shares.groups.get(group_id)

    def _known(self, group_id: str) -> GroupView:
        view = self.view(group_id)
        if view is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND)
        return view

    # A joining member of another protocol replaces an empty classic group, or converts a classic or consumer group with members.
    # An empty consumer or streams group is only replaced by a member of the classic protocol.

    def heartbeat(self, beat: ConsumerHeartbeat, now_ms: int, expansions: Expansions) -> Result[ConsumerHeartbeatAnswer]:
        """Handle a validated ConsumerGroupHeartbeat after `ConsumerGroups.expansions` has run. Raises `KafkaError`."""
        group_id, upgrade = beat.request.group_id, Upgrade(None, [], [])
        if group_id in self.streams.groups or group_id in self.shares.groups:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group_id not in self.consumers.groups and self.exists(group_id):
            classic = ClassicView(group_id, self.groups.get(group_id))
            if beat.request.member_epoch != JOIN_EPOCH:
                raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            if classic.group is None or classic.is_empty:
                upgrade = Upgrade(None, classic.tombstones(), [])
            else:
                upgrade = self._migration.upgrade(classic.group, now_ms)
        result = self.consumers.heartbeat(beat, now_ms, expansions, upgrade.group)
        result.records[:0] = upgrade.records
        result.effects[:0] = upgrade.effects
        return result

    def streams_heartbeat(self, beat: StreamsHeartbeat, now_ms: int) -> Result[StreamsHeartbeatOutcome]:
        """Handle a validated StreamsGroupHeartbeat. Raises `KafkaError`."""
        group_id, tombstones = beat.request.group_id, list[LogRecord]()
        if group_id not in self.streams.groups and self.exists(group_id):
            is_classic = self._modern(group_id) is None
            classic = ClassicView(group_id, self.groups.get(group_id))
            if not is_classic or not classic.is_empty or beat.request.member_epoch != JOIN_EPOCH:
                raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
            tombstones = classic.tombstones()
        result = self.streams.heartbeat(beat, now_ms)
        result.records[:0] = tombstones
        return result

    def share_heartbeat(self, beat: ShareHeartbeat, now_ms: int) -> Result[ShareHeartbeatOutcome]:
        """Handle a validated ShareGroupHeartbeat. Raises `KafkaError`."""
        self.check_share_group(beat.request.group_id)
        return self.shares.heartbeat(beat, now_ms)

    def check_share_group(self, group_id: str) -> None:
        """Raise GROUP_ID_NOT_FOUND if a group of another type has this id, even without members."""
        if group_id not in self.shares.groups and self.exists(group_id):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    def join(self, request: JoinRequest, now_ms: int) -> Result[None]:
        """Handle JoinGroup. The response is sent with ``request.waiter``.

        Raises `KafkaError`, for example INCONSISTENT_GROUP_PROTOCOL for a group of another type that has members.
        """
        group_id = request.group_id
        modern = self._modern(group_id)
        if isinstance(modern, ShareGroup):
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL, f"Group {group_id} is a share group.")
        if modern is not None and not modern.is_empty:
            self.membership.check_join(request)
            if group_id in self.consumers.groups and self.config.migration is not MigrationPolicy.DISABLED:
                return self.consumers.join(request, now_ms)
            message = f"The {modern.type_name} group {group_id} has members, and does not accept members of the classic protocol."
            raise KafkaError(Code.INCONSISTENT_GROUP_PROTOCOL, message)
        result = self.membership.join(request, now_ms)
        if modern is not None:
            result.records[:0] = modern.tombstones()
        if modern is not None or not self.exists(group_id):
            # As in Kafka, a new group is logged before its first generation.
            result.records.append(group_record(ClassicGroup(group_id), now_ms))
        return result

    def sync(self, request: SyncRequest, now_ms: int) -> Result[None]:
        """Handle SyncGroup. The response is sent with ``request.waiter``. Raises `KafkaError`."""
        if request.group_id in self.consumers.groups:
            return Result(None, effects=[AnswerMember(request.waiter, self.consumers.sync(request, now_ms))])
        return self.membership.sync(request, now_ms)

    def classic_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """Handle Heartbeat. Raises `KafkaError`."""
        room = self.consumers.classic_heartbeat if group_id in self.consumers.groups else self.membership.heartbeat
        room(group_id, generation, member_id, instance_id, now_ms)

    def leave(self, group_id: str, leaving: list[tuple[str, str | None]], now_ms: int) -> Result[list[Code]]:
        """Handle LeaveGroup, which admins also use to remove members of consumer groups. Raises UNKNOWN_MEMBER_ID."""
        if group_id in self.consumers.groups:
            return self.consumers.remove(group_id, leaving, now_ms)
        return self.membership.leave(group_id, leaving, now_ms)

    def tick(self, now_ms: int, max_batch_bytes: int) -> Iterator[tuple[str, Result[None]]]:
        """Handle expired deadlines, group by group. Each result must be carried out before the next is requested.

        Records of consumer, streams and share groups come in batches of about ``max_batch_bytes``.
        """
        yield from self.membership.tick(now_ms)
        yield from self.consumers.tick(now_ms, max_batch_bytes)
        yield from self.streams.tick(now_ms, max_batch_bytes)
        yield from self.shares.tick(now_ms, max_batch_bytes)

    # committing, reading and deleting offsets

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
        has_new_error_codes: bool = False,
    ) -> Result[dict[TopicPartition, Code]]:
        """Handle OffsetCommit or TxnOffsetCommit.

        ``has_new_error_codes``: the client knows STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND.

        Raises `KafkaError` for an error of the whole request.
        """
        group, check = self.view(group_id), None
        if group is not None:
            check = group.check_commit(
                member_id, instance_id, generation, transactional=transactional, has_new_error_codes=has_new_error_codes
            )
        elif generation >= 0:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND if has_new_error_codes else Code.ILLEGAL_GENERATION)
        codes: dict[TopicPartition, Code] = {}
        records: list[LogRecord] = []
        for partition, offset in offsets.items():
            if len(offset.metadata.encode()) > self.config.offset_metadata_max_bytes:
                codes[partition] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            if check is not None:
                check(self._topics.topic_id(partition[0]), *partition)
            records.append(offset_record((group_id, *partition), offset))
            codes[partition] = Code.NONE
        extends = member_id and group_id in self.groups
        return Result(codes, records=records, effects=[ExtendSession(group_id, member_id, now_ms)] if extends else [])

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Check that a client may read a group's offsets with this member id and epoch. Raises `KafkaError`."""
        group = self.view(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    def fetch(self, group_id: str, *, require_stable: bool, is_kept: bool = False) -> GroupOffsets:
        """Return a group's current offsets. With ``is_kept`` return a copy. A caller that reads it in steps then sees all or none
        of a transaction's offsets."""
        committed = self.offsets.of_group(group_id)
        pending = self.offsets.pending_of(group_id) if require_stable else ()
        return GroupOffsets(group_id, dict(committed), set(pending)) if is_kept else GroupOffsets(group_id, committed, pending)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Result[dict[TopicPartition, Code]]:
        group = self._known(group_id)
        group.check_offset_delete()
        committed = self.offsets.of_group(group_id)
        subscribed = group.topics_in_use()
        codes: dict[TopicPartition, Code] = {}
        records = []
        for key in partitions:
            if subscribed is None or key[0] in subscribed:
                # A member's subscription that cannot be decoded (``subscribed`` is None) may include any topic.
                codes[key] = Code.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            codes[key] = Code.NONE
            if key in committed:
                records.append(offset_tombstone((group_id, *key)))
        return Result(codes, records=records)

    # deleting groups and unused offsets

    def offset_count(self, group_id: str) -> int:
        return len(self.offsets.of_group(group_id))

    def delete_group(self, group_id: str, at_most: int) -> Result[bool]:
        """Write tombstones for ``at_most`` offsets of a group and, after its last offset, for the group. Returns whether the group
        is deleted.

        Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        group = self._known(group_id)
        if not group.is_empty:
            raise KafkaError(Code.NON_EMPTY_GROUP)
        committed = self.offsets.of_group(group_id)
        only_pending = (key for key in self.offsets.pending_of(group_id) if key[1:] not in committed)
        # Read one key more than ``at_most``, to see whether this batch is the last.
        keys = list(islice(chain(((group_id, *p) for p in committed), only_pending), at_most + 1))
        is_last = len(keys) <= at_most
        del keys[at_most:]
        tombstones = [offset_tombstone(key) for key in keys]
        return Result(is_last, records=[*tombstones, *group.tombstones()] if is_last else tombstones)

    def expire_offsets(self, now_ms: int, at_once: int, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Write tombstones for offsets past their retention, and for empty groups without remaining offsets.

        Each step checks at most ``at_once`` groups, and its records fit into one batch.
        """
        group_ids = self.group_ids()
        for start in range(0, len(group_ids), at_once):
            some = group_ids[start : start + at_once]
            for records in decided_in_batches(some, lambda group_id: self._expired(group_id, now_ms), max_batch_bytes):
                yield Result(None, records=records)

    def _expired(self, group_id: str, now_ms: int) -> list[LogRecord]:
        group = self.view(group_id)
        in_use = None if group is None else group.topics_in_use()
        if group is None or in_use is None:
            return []
        keys = self.offsets.expired(group_id, now_ms, self.config.offsets_retention_ms, group.idle_since_ms, in_use)
        records = [offset_tombstone(key) for key in keys]
        remaining = len(self.offsets.of_group(group_id)) - len(keys)
        if group.is_forgettable and remaining == 0 and not self.offsets.has_pending(group_id) and group_id in self._logged:
            records += group.tombstones()
        return records

    def forget_topic(self, topic: str, before_offset: int, at_once: int, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Write tombstones for a deleted topic's offsets that were committed below ``before_offset`` of this log.

        Later commits belong to a new topic with the same name. Each step checks at most ``at_once`` offsets.
        """
        keys = self.offsets.keys_of_topic(topic)
        for start in range(0, len(keys), at_once):
            some = keys[start : start + at_once]
            for records in decided_in_batches(some, lambda key: self._stale(key, before_offset), max_batch_bytes):
                yield Result(None, records=records)

    def _stale(self, key: OffsetKey, before_offset: int) -> list[LogRecord]:
        record_offsets = list(self.offsets.record_offsets(key))
        return [offset_tombstone(key)] if record_offsets and max(record_offsets) < before_offset else []

    def group_ids(self) -> list[str]:
        """Return the ids of all groups: first the groups in the log, in the order of their first record."""
        return list(self._logged | dict.fromkeys(self.groups))

    # replaying records and markers

    def replay(self, record: LogRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        """Replay a record. Raises `DecodeError` for an unknown type of record, which a starting broker skips."""
        kind = kind_of(record.key)
        modern = self._modern_by_kind.get(kind)
        if modern is not None:
            group_id, is_gone = modern.replay(kind, record.key or b"", record.value, now_ms)
            self._note(group_id, is_there=record.value is not None, is_gone=is_gone)
            return
        key = read_key(record.key)
        if not isinstance(key, str):
            # Count the group as logged even for an offset's tombstone: a starting broker may skip the offset's record.
            self._logged[key[0]] = None
            if record.value is None:
                self.offsets.remove(key)
            else:
                self.offsets.put(key, read_offset(record.value, record_offset), producer_id)
            return
        self.membership.replay_group(key, None if record.value is None else read_group(key, record.value, now_ms))
        self._note(key, is_there=record.value is not None, is_gone=record.value is None)

    def _note(self, group_id: str, *, is_there: bool, is_gone: bool) -> None:
        """Track which groups have records in the log. A group that still has offsets after its tombstone stays as a simple
        group."""
        if is_there:
            self._logged[group_id] = None
        elif is_gone and not self.offsets.of_group(group_id) and not self.offsets.has_pending(group_id):
            self._logged.pop(group_id, None)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        self.offsets.complete(producer_id, commit=commit)
