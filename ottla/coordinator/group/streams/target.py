"""Decides when the members of a streams group get new targets, and computes them (TargetAssignmentBuilder of Kafka)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ottla.coordinator.group.modern.group import with_member
from ottla.coordinator.group.modern.target import may_assign
from ottla.coordinator.group.streams.assignor import TaskMember, assign
from ottla.coordinator.group.streams.configuration import ConfiguredTopology
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.member import StreamsGroupMember
from ottla.coordinator.group.streams.records import RECORDS, GroupMetadata, target_record
from ottla.coordinator.group.streams.requests import STANDBYS_CONFIG, StreamsGroupConfig
from ottla.coordinator.group.streams.tasks import Tasks, without_epochs
from ottla.coordinator.result import LogRecord


class TaskTarget(msgspec.Struct, frozen=True):
    """The members' target tasks, and the records of changed targets. ``delayed_by``: why no newer target was computed."""

    epoch: int
    tasks: Mapping[str, Tasks]
    records: list[LogRecord] = []
    delayed_by: str | None = None


def next_target(
    group: StreamsGroup,
    metadata: GroupMetadata,
    configured: ConfiguredTopology,
    config: StreamsGroupConfig,
    now_ms: int,
    member: StreamsGroupMember | None = None,
    *,
    is_delay_over: bool = False,
) -> TaskTarget:
    """Return the target of the group's epoch, or the previous target if it is too early for a new target. ``member``: the changed
    member."""
    if group.delayed_until_ms is not None and not is_delay_over:
        return TaskTarget(group.assignment_epoch, {}, delayed_by="initial rebalance delay")
    members, targets = with_member(group, group.targets, member)
    if group.assignment_epoch >= metadata.epoch:
        return TaskTarget(group.assignment_epoch, targets)
    if not may_assign(group.assigned_ms, config.assignment_interval_ms, now_ms):
        return TaskTarget(group.assignment_epoch, targets, delayed_by="assignment interval")
    assigned = _assigned(group, members, configured, metadata)
    records = [
        target_record(group.group_id, member_id, tasks) for member_id, tasks in assigned.items() if targets.get(member_id) != tasks
    ]
    records.append(RECORDS.target_epoch_record(group.group_id, metadata.epoch, now_ms))
    return TaskTarget(metadata.epoch, assigned, records)


def _assigned(
    group: StreamsGroup, members: Mapping[str, StreamsGroupMember], configured: ConfiguredTopology, metadata: GroupMetadata
) -> dict[str, Tasks]:
    if configured.subtopologies is None or not configured.is_ready:
        return dict.fromkeys(members, Tasks())
    seen = {
        member_id: TaskMember(
            process_id=member.process_id,
            active=without_epochs(member.assigned.active),
            standby=member.assigned.standby,
            task_offsets=group.task_offsets[member_id].offsets if member_id in group.task_offsets else {},
        )
        for member_id, member in members.items()
    }
    return assign(seen, configured.subtopologies, int(metadata.assignment_configs.get(STANDBYS_CONFIG, 0)))
