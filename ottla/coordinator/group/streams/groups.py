"""All streams groups of a shard: their decisions, their deadlines, and the replay of their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from ottla.coordinator.group.deadlines import MAX_FENCED_MEMBERS, Deadlines
from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH, NO_TARGET_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.group.modern.records import read_target_epoch
from ottla.coordinator.group.streams import records
from ottla.coordinator.group.streams.answers import described
from ottla.coordinator.group.streams.configuration import configure
from ottla.coordinator.group.streams.effects import (
    AwaitNextStreamsDeadline,
    DelayFirstAssignment,
    KeepTaskOffsets,
    RaiseEndpointEpoch,
    RequestShutdown,
    StreamsMemberSeen,
)
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.heartbeat import heartbeat
from ottla.coordinator.group.streams.joining import fenced, leave
from ottla.coordinator.group.streams.member import UNKNOWN_TIMEOUT_MS, StreamsGroupMember
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat, StreamsHeartbeatOutcome
from ottla.coordinator.group.streams.target import next_target
from ottla.coordinator.group.streams.tasks import AssignedTasks
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import Effect, LogRecord, Result, first_that_fit
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_describe import DescribedGroup


class StreamsGroups:
    """All streams groups of a shard. `replay` takes their records; `apply` makes the changes that are not logged.

    ``config_of`` returns the current configuration of a group.
    """

    def __init__(self, config_of: Callable[[str], StreamsGroupConfig], topics: GroupTopics) -> None:
        self._config_of = config_of
        self.groups: dict[str, StreamsGroup] = {}
        self._topics = topics
        self._deadlines = Deadlines(self.groups)

    # commands

    def heartbeat(self, beat: StreamsHeartbeat, now_ms: int) -> Result[StreamsHeartbeatOutcome]:
        """Handle a request after `requests.check_heartbeat`. Raises `KafkaError`."""
        request = beat.request
        group, config = self.groups.get(request.group_id), self._config_of(request.group_id)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return leave(self.group(request.group_id), request)
        if group is None and request.member_epoch == JOIN_EPOCH:
            group = StreamsGroup(request.group_id)
            return heartbeat(group, beat, config, self._topics, now_ms, is_new_group=True)
        return heartbeat(self.group(request.group_id), beat, config, self._topics, now_ms, is_new_group=False)

    def group(self, group_id: str) -> StreamsGroup:
        """Return the group, or raise GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        return group

    def describe(self, group_id: str) -> DescribedGroup:
        """Describe the group. Raises GROUP_ID_NOT_FOUND."""
        return described(self.group(group_id))

    def tick(self, now_ms: int, max_batch_bytes: int) -> Iterator[tuple[str, Result[None]]]:
        """Fence late members: from each group as many as fit into a batch, and the others at the next tick.

        Also compute the first targets of new groups after their delay. Each result must be carried out before the next is
        requested. If the log refuses a group's records, the group does not change, and is checked again after `deadlines.RETRY_MS`.
        """
        for group in self._deadlines.due(now_ms):
            late = group.late_members(now_ms)[:MAX_FENCED_MEMBERS]
            awaits = AwaitNextStreamsDeadline(group.group_id, now_ms)
            if late:
                some = first_that_fit(late, partial(records.RECORDS.member_tombstones, group.group_id), max_batch_bytes)
                yield group.group_id, Result(None, records=fenced(group, some), effects=[awaits])
            if group.delayed_until_ms is not None and group.delayed_until_ms <= now_ms:
                over = DelayFirstAssignment(group.group_id, None)
                yield group.group_id, Result(None, records=self._delayed_target(group, now_ms), effects=[over, awaits])
            elif not late:
                self._deadlines.fix(group, group.next_deadline_ms())

    def _delayed_target(self, group: StreamsGroup, now_ms: int) -> list[LogRecord]:
        if not group.members or group.topology is None or group.metadata.epoch <= group.assignment_epoch:
            return []
        try:
            configured = configure(group.topology, self._topics)
        except KafkaError:
            # Topics have changed, and the topology no longer fits any tasks. Each heartbeat reports this.
            return []
        return next_target(group, group.metadata, configured, self._config_of(group.group_id), now_ms, is_delay_over=True).records

    # effects

    def apply(self, effect: Effect) -> None:
        """Change state in memory that is not logged, once the decision's records are in the log."""
        match effect:
            case StreamsMemberSeen(group_id=group_id, member_id=member_id, now_ms=now_ms):
                group = self.groups[group_id]
                group.extend_session(member_id, now_ms + self._config_of(group.group_id).session_timeout_ms)
                self._deadlines.arm(group)
            case DelayFirstAssignment(group_id=group_id, until_ms=None):
                self.groups[group_id].delayed_until_ms = None
            case DelayFirstAssignment(group_id=group_id, until_ms=int(until_ms)):
                self.groups[group_id].delay_until(until_ms)
                self._deadlines.arm(self.groups[group_id])
            case KeepTaskOffsets(group_id=group_id, member_id=member_id, offsets=offsets):
                self.groups[group_id].task_offsets[member_id] = offsets
            case RequestShutdown(group_id=group_id, member_id=member_id):
                group = self.groups[group_id]
                if group.members and group.shutdown_member_id is None:
                    group.shutdown_member_id = member_id
            case RaiseEndpointEpoch(group_id=group_id):
                self.groups[group_id].endpoint_epoch += 1
            case AwaitNextStreamsDeadline(group_id=group_id, now_ms=now_ms):
                group = self.groups[group_id]
                self._deadlines.fix_after(group, now_ms, group.next_deadline_ms())
            case _:
                raise TypeError(f"not an effect on streams groups: {effect!r}")

    # replay

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> tuple[str, bool]:
        """Replay one record. Returns the group's id, and whether the record removed the group. Raises `DecodeError`."""
        read = records.RECORDS.read_key(kind, key)
        group_id: str = read.group_id
        group = self.groups.get(group_id)
        if value is None:
            if group is None:
                return group_id, kind == records.RECORDS.metadata
            return group_id, self._remove(group, kind, read)
        group = StreamsGroup(group_id) if group is None else group
        self._take(group, kind, read, value, now_ms)
        self.groups[group_id] = group
        self._deadlines.arm(group)
        return group_id, False

    def _take(self, group: StreamsGroup, kind: int, key: Any, value: bytes, now_ms: int) -> None:
        if kind == records.RECORDS.metadata:
            group.metadata = records.read_metadata(value)
        elif kind == records.TOPOLOGY:
            group.topology = records.read_topology(value)
            group.configured = None
        elif kind == records.RECORDS.target_metadata:
            group.assignment_epoch, group.assigned_ms = read_target_epoch(value)
        elif kind == records.RECORDS.target_member:
            group.targets[key.member_id] = records.read_target(value)
        else:
            fields = records.read_member(value) if kind == records.RECORDS.member else records.read_current(value)
            known = group.members.get(key.member_id) or StreamsGroupMember(key.member_id)
            member = msgspec.structs.replace(known, **fields)
            group.put(member)
            if member.member_id not in group.sessions_ms:
                # The member is new, or the broker has started, which gives every member a new session.
                group.extend_session(member.member_id, now_ms + self._config_of(group.group_id).session_timeout_ms)
            if kind == records.RECORDS.current or known.rebalance_timeout_ms == UNKNOWN_TIMEOUT_MS:
                # After compaction, the member's metadata record with its rebalance timeout may follow its assignment record.
                group.time_revocation(member, now_ms)

    def _remove(self, group: StreamsGroup, kind: int, key: Any) -> bool:
        """Replay a tombstone. Returns whether it removed the group."""
        if kind == records.RECORDS.metadata:
            del self.groups[group.group_id]
            return True
        if kind == records.TOPOLOGY:
            group.topology = group.configured = None
        elif kind == records.RECORDS.target_metadata:
            group.assignment_epoch, group.assigned_ms = NO_TARGET_EPOCH, 0
        elif kind == records.RECORDS.target_member:
            group.targets.pop(key.member_id, None)
        elif kind == records.RECORDS.member:
            group.remove(key.member_id)
        elif key.member_id in group.members:
            member = group.members[key.member_id]
            none = AssignedTasks()
            group.put(msgspec.structs.replace(member, member_epoch=-1, previous_epoch=-1, assigned=none, revoking=none))
            group.revocations_ms.pop(key.member_id, None)
        return False
