"""All share groups of a shard: their decisions, their deadlines, and the replay of their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ottla.coordinator.group.deadlines import MAX_FENCED_MEMBERS, Deadlines
from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH, NO_TARGET_EPOCH
from ottla.coordinator.group.modern.records import read_target, read_target_epoch
from ottla.coordinator.group.share import initialization, offsets, records
from ottla.coordinator.group.share.effects import AwaitNextShareDeadline, ShareGroupTopicsRead, ShareMemberSeen
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.heartbeat import fenced, heartbeat, leave
from ottla.coordinator.group.share.initialization import PartitionsByTopic
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.group.share.requests import ShareGroupConfig, ShareHeartbeat, ShareHeartbeatOutcome
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import Effect, LogRecord, Result, decided_in_batches, first_that_fit
from ottla.protocol.errors import Code, KafkaError


class ShareGroups:
    """All share groups of a shard. `replay` takes their records; `apply` makes the changes that are not logged.

    ``config_of`` returns the current configuration of a group.
    """

    def __init__(self, config_of: Callable[[str], ShareGroupConfig], topics: GroupTopics) -> None:
        self._config_of = config_of
        self.groups: dict[str, ShareGroup] = {}
        self._topics = topics
        self._deadlines = Deadlines(self.groups)

    def group(self, group_id: str) -> ShareGroup:
        """Return the group, or raise GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    # commands

    def heartbeat(self, beat: ShareHeartbeat, now_ms: int) -> Result[ShareHeartbeatOutcome]:
        """Handle a request after `requests.check_heartbeat`. Raises `KafkaError`."""
        if beat.member_epoch == LEAVE_EPOCH:
            return leave(self.group(beat.group_id), beat, self._topics)
        group = self.groups.get(beat.group_id)
        if group is None and beat.member_epoch != JOIN_EPOCH:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Share group {beat.group_id} not found.")
        return heartbeat(group or ShareGroup(beat.group_id), beat, self._config_of(beat.group_id), self._topics, now_ms)

    def is_initializing(self, group_id: str, topic_id: bytes, partition: int) -> bool:
        """Whether the group waits for the share coordinator to initialize this partition's state."""
        group = self.groups.get(group_id)
        return group is not None and initialization.is_initializing(group, topic_id, partition)

    def initialized(self, group_id: str, partitions: PartitionsByTopic) -> Result[None]:
        """Log that the share coordinator has initialized the requested states. Returns no records if the group no longer exists."""
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else initialization.initialized(group, partitions, self._topics))

    def not_initialized(self, group_id: str, partitions: PartitionsByTopic) -> Result[None]:
        """Log that the share coordinator has refused to initialize these states."""
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else initialization.not_initialized(group, partitions))

    def state_lost(self, group_id: str, topic_id: bytes, partition: int) -> Result[None]:
        """Log that the share coordinator no longer has a state that it had initialized."""
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else initialization.state_lost(group, topic_id, partition))

    def alter_offsets(self, group_id: str, start_offsets: Sequence[tuple[str, Mapping[int, int]]]) -> Result[offsets.Altered]:
        """Set start offsets. Creates the group if it does not exist. Raises NON_EMPTY_GROUP."""
        return offsets.alter(self.groups.get(group_id) or ShareGroup(group_id), start_offsets, self._topics)

    def delete_offsets(self, group_id: str, names: Sequence[str]) -> Result[offsets.Deletion]:
        """Delete the group's states of these topics. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
        return offsets.delete(self.group(group_id), names, self._topics)

    def delete_all_offsets(self, group_id: str) -> Result[PartitionsByTopic]:
        """Delete all states of the group. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
        return offsets.delete_all(self.group(group_id), self._topics)

    def offsets_deleted(self, group_id: str, topic_ids: Collection[bytes]) -> Result[None]:
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else offsets.deleted(group, topic_ids))

    def tick(self, now_ms: int, max_batch_bytes: int) -> Iterator[tuple[str, Result[None]]]:
        """Fence late members: from each group as many as fit into a batch, and the others at the next tick.

        Each result must be carried out before the next is requested. If the log refuses a group's records, the group does not
        change, and is checked again after `deadlines.RETRY_MS`.
        """
        for group in self._deadlines.due(now_ms):
            late = group.late_members(now_ms)[:MAX_FENCED_MEMBERS]
            if late:
                some = first_that_fit(late, partial(records.RECORDS.member_tombstones, group.group_id), max_batch_bytes)
                awaits = AwaitNextShareDeadline(group.group_id, now_ms)
                yield group.group_id, Result(None, records=fenced(group, some, self._topics), effects=[awaits])
            else:
                self._deadlines.fix(group, group.next_deadline_ms())

    def topic_changed(self, topic: str) -> None:
        """Make groups that subscribe to a topic check their topics at the next heartbeat, because it was created, grown or
        deleted."""
        for group in self.groups.values():
            if topic in group.subscribers:
                group.is_stale, group.has_all_states = True, False

    def forget_topics(self, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Remove the states of topics that no longer exist from all groups, in batches of at most ``max_batch_bytes``."""
        group_ids = list(self.groups)
        for piece in decided_in_batches(group_ids, self._without_topics, max_batch_bytes):
            yield Result(None, records=piece)

    def _without_topics(self, group_id: str) -> list[LogRecord]:
        group = self.groups.get(group_id)
        return [] if group is None else initialization.without_topics(group, self._topics)

    # effects

    def apply(self, effect: Effect) -> None:
        """Change state in memory that is not logged, once the decision's records are in the log."""
        match effect:
            case ShareMemberSeen(group_id=group_id, member_id=member_id, now_ms=now_ms):
                group = self.groups[group_id]
                group.extend_session(member_id, now_ms + self._config_of(group_id).session_timeout_ms)
                self._deadlines.arm(group)
            case ShareGroupTopicsRead(group_id=group_id):
                self.groups[group_id].is_stale = False
            case AwaitNextShareDeadline(group_id=group_id, now_ms=now_ms):
                group = self.groups[group_id]
                self._deadlines.fix_after(group, now_ms, group.next_deadline_ms())
            case _:
                raise TypeError(f"not an effect on share groups: {effect!r}")

    # replay

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> tuple[str, bool]:
        """Replay one record. Returns the group's id, and whether the record removed the group. Raises `DecodeError`."""
        read = records.RECORDS.read_key(kind, key)
        group_id: str = read.group_id
        group = self.groups.get(group_id)
        if value is None:
            if group is None:
                return group_id, kind == records.RECORDS.metadata
            group.changed()
            return group_id, self._remove(group, kind, read)
        group = ShareGroup(group_id) if group is None else group
        self._take(group, kind, read, value, now_ms)
        group.changed()
        self.groups[group_id] = group
        self._deadlines.arm(group)
        return group_id, False

    def _take(self, group: ShareGroup, kind: int, key: Any, value: bytes, now_ms: int) -> None:
        if kind == records.RECORDS.metadata:
            group.group_epoch, group.metadata_hash = records.read_epoch(value)
        elif kind == records.RECORDS.target_metadata:
            group.assignment_epoch, group.assigned_ms = read_target_epoch(value)
        elif kind == records.RECORDS.target_member:
            group.targets[key.member_id] = read_target(value)
        elif kind == records.STATES:
            group.states, group.states_noted_ms = records.read_states(value), now_ms
        else:
            fields = records.read_member(value) if kind == records.RECORDS.member else records.read_current(value)
            member = msgspec.structs.replace(group.members.get(key.member_id) or ShareGroupMember(key.member_id), **fields)
            group.put(member)
            if member.member_id not in group.sessions_ms:
                # The member is new, or the broker has started, which gives every member a new session.
                group.extend_session(member.member_id, now_ms + self._config_of(group.group_id).session_timeout_ms)

    def _remove(self, group: ShareGroup, kind: int, key: Any) -> bool:
        """Replay a tombstone. Returns whether it removed the group."""
        if kind == records.RECORDS.metadata:
            del self.groups[group.group_id]
            return True
        if kind == records.RECORDS.target_metadata:
            group.assignment_epoch, group.assigned_ms = NO_TARGET_EPOCH, 0
        elif kind == records.RECORDS.target_member:
            group.targets.pop(key.member_id, None)
        elif kind == records.STATES:
            group.states = None
        elif kind == records.RECORDS.member:
            group.remove(key.member_id)
        elif key.member_id in group.members:
            group.put(msgspec.structs.replace(group.members[key.member_id], member_epoch=-1, previous_epoch=-1, assigned={}))
        return False
