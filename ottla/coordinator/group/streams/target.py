"""Decides when the members of a streams group get new targets, and computes them (TargetAssignmentBuilder of Kafka)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ottla.coordinator.group.assignment_interval import may_assign
from ottla.coordinator.group.streams.assignor import TaskMember, assign
from ottla.coordinator.group.streams.configuration import ConfiguredTopology
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.member import StreamsGroupMember
from ottla.coordinator.group.streams.records import RECORDS, GroupMetadata, target_record
from ottla.coordinator.group.streams.requests import STANDBYS_CONFIG, StreamsGroupConfig
from ottla.coordinator.group.streams.tasks import Tasks, without_epochs
from ottla.coordinator.result import LogRecord


class TaskTarget(msgspec.Struct, frozen=True):
    """The members' target tasks, and the records of the changed ones. ``delayed_by`` is the reason why no newer target was
    computed."""

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
    """Return the target of the group's epoch, or the previous target if a new one is too early. ``member`` is in its state after
    the heartbeat."""
    if group.delayed_until_ms is not None and not is_delay_over:
        return TaskTarget(group.assignment_epoch, {}, delayed_by="initial rebalance delay")
    members, targets = dict(group.members), group.targets
    if member is not None:
        members, targets = _with(group, member)
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


def _with(group: StreamsGroup, member: StreamsGroupMember) -> tuple[dict[str, StreamsGroupMember], dict[str, Tasks]]:
    """Return the members and their targets once ``member`` has replaced its old state, or the static member with its instance
    id."""
    members, targets = {**group.members, member.member_id: member}, group.targets
    replaced = None if member.instance_id is None else group.static_members.get(member.instance_id)
    if replaced is not None and replaced != member.member_id:
        members.pop(replaced)
        targets = {(member.member_id if member_id == replaced else member_id): tasks for member_id, tasks in targets.items()}
    return members, targets


def _assigned(
    group: StreamsGroup, members: dict[str, StreamsGroupMember], configured: ConfiguredTopology, metadata: GroupMetadata
) -> dict[str, Tasks]:
    """Assign tasks to all members. While topics are missing, no member gets a task."""
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
