"""StreamsGroupTargetAssignmentMemberValue: generated from protocol/schemas/streams_group_target_assignment_member_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)


RECORD_TYPE = 21
MIN_VERSION = 0
MAX_VERSION = 0

class TaskIds(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    partitions: list[int] = []


def _read_task_ids(buf: Buffer, pos: int, version: int) -> tuple[TaskIds, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TaskIds(subtopology_id, partitions), pos


def _write_task_ids(put: Put, m: TaskIds, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class StreamsGroupTargetAssignmentMemberValue(msgspec.Struct, gc=False):
    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


def _read_streams_group_target_assignment_member_value(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupTargetAssignmentMemberValue, int]:
    _count, pos = read_compact_length(buf, pos)
    active_tasks: list[TaskIds] = []
    for _ in range(_count):
        _active_tasks_item, pos = _read_task_ids(buf, pos, version)
        active_tasks.append(_active_tasks_item)
    _count, pos = read_compact_length(buf, pos)
    standby_tasks: list[TaskIds] = []
    for _ in range(_count):
        _standby_tasks_item, pos = _read_task_ids(buf, pos, version)
        standby_tasks.append(_standby_tasks_item)
    _count, pos = read_compact_length(buf, pos)
    warmup_tasks: list[TaskIds] = []
    for _ in range(_count):
        _warmup_tasks_item, pos = _read_task_ids(buf, pos, version)
        warmup_tasks.append(_warmup_tasks_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupTargetAssignmentMemberValue(active_tasks, standby_tasks, warmup_tasks), pos


def _write_streams_group_target_assignment_member_value(put: Put, m: StreamsGroupTargetAssignmentMemberValue, version: int) -> None:
    put(uvarint(len(m.active_tasks) + 1))
    for item_active_tasks in m.active_tasks:
        _write_task_ids(put, item_active_tasks, version)
    put(uvarint(len(m.standby_tasks) + 1))
    for item_standby_tasks in m.standby_tasks:
        _write_task_ids(put, item_standby_tasks, version)
    put(uvarint(len(m.warmup_tasks) + 1))
    for item_warmup_tasks in m.warmup_tasks:
        _write_task_ids(put, item_warmup_tasks, version)
    put(b"\0")


decode = _read_streams_group_target_assignment_member_value
encode = _write_streams_group_target_assignment_member_value
