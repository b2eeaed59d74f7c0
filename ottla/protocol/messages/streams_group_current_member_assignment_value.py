"""StreamsGroupCurrentMemberAssignmentValue: generated from protocol/schemas/streams_group_current_member_assignment_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_string,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_iib = _Struct(">iib")

RECORD_TYPE = 22
MIN_VERSION = 0
MAX_VERSION = 0

class TaskIds(msgspec.Struct, gc=False):
    subtopology_id: str = ""
    partitions: list[int] = []
    assignment_epochs: list[int] | None = []


def _read_task_ids(buf: Buffer, pos: int, version: int) -> tuple[TaskIds, int]:
    subtopology_id, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    assignment_epochs: list[int] | None = []
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            _count, pos = read_compact_nullable_length(buf, pos)
            assignment_epochs = None
            if _count >= 0:
                assignment_epochs = list(unpack_from(f">{_count}i", buf, pos))
                pos += 4 * _count
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return TaskIds(subtopology_id, partitions, assignment_epochs), pos


def _write_task_ids(put: Put, m: TaskIds, version: int) -> None:
    put(compact_string(m.subtopology_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if (m.assignment_epochs is None or m.assignment_epochs):
        _parts = []
        if m.assignment_epochs is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.assignment_epochs) + 1))
            _parts.append(pack(f">{len(m.assignment_epochs)}i", *m.assignment_epochs))
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


class StreamsGroupCurrentMemberAssignmentValue(msgspec.Struct, gc=False):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []
    active_tasks_pending_revocation: list[TaskIds] = []
    standby_tasks_pending_revocation: list[TaskIds] = []
    warmup_tasks_pending_revocation: list[TaskIds] = []


def _read_streams_group_current_member_assignment_value(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupCurrentMemberAssignmentValue, int]:
    member_epoch, previous_member_epoch, state = _fmt_iib.unpack_from(buf, pos)
    pos += 9
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
    _count, pos = read_compact_length(buf, pos)
    active_tasks_pending_revocation: list[TaskIds] = []
    for _ in range(_count):
        _active_tasks_pending_revocation_item, pos = _read_task_ids(buf, pos, version)
        active_tasks_pending_revocation.append(_active_tasks_pending_revocation_item)
    _count, pos = read_compact_length(buf, pos)
    standby_tasks_pending_revocation: list[TaskIds] = []
    for _ in range(_count):
        _standby_tasks_pending_revocation_item, pos = _read_task_ids(buf, pos, version)
        standby_tasks_pending_revocation.append(_standby_tasks_pending_revocation_item)
    _count, pos = read_compact_length(buf, pos)
    warmup_tasks_pending_revocation: list[TaskIds] = []
    for _ in range(_count):
        _warmup_tasks_pending_revocation_item, pos = _read_task_ids(buf, pos, version)
        warmup_tasks_pending_revocation.append(_warmup_tasks_pending_revocation_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupCurrentMemberAssignmentValue(member_epoch, previous_member_epoch, state, active_tasks, standby_tasks, warmup_tasks, active_tasks_pending_revocation, standby_tasks_pending_revocation, warmup_tasks_pending_revocation), pos


def _write_streams_group_current_member_assignment_value(put: Put, m: StreamsGroupCurrentMemberAssignmentValue, version: int) -> None:
    put(_fmt_iib.pack(m.member_epoch, m.previous_member_epoch, m.state))
    put(uvarint(len(m.active_tasks) + 1))
    for item_active_tasks in m.active_tasks:
        _write_task_ids(put, item_active_tasks, version)
    put(uvarint(len(m.standby_tasks) + 1))
    for item_standby_tasks in m.standby_tasks:
        _write_task_ids(put, item_standby_tasks, version)
    put(uvarint(len(m.warmup_tasks) + 1))
    for item_warmup_tasks in m.warmup_tasks:
        _write_task_ids(put, item_warmup_tasks, version)
    put(uvarint(len(m.active_tasks_pending_revocation) + 1))
    for item_active_tasks_pending_revocation in m.active_tasks_pending_revocation:
        _write_task_ids(put, item_active_tasks_pending_revocation, version)
    put(uvarint(len(m.standby_tasks_pending_revocation) + 1))
    for item_standby_tasks_pending_revocation in m.standby_tasks_pending_revocation:
        _write_task_ids(put, item_standby_tasks_pending_revocation, version)
    put(uvarint(len(m.warmup_tasks_pending_revocation) + 1))
    for item_warmup_tasks_pending_revocation in m.warmup_tasks_pending_revocation:
        _write_task_ids(put, item_warmup_tasks_pending_revocation, version)
    put(b"\0")


decode = _read_streams_group_current_member_assignment_value
encode = _write_streams_group_current_member_assignment_value
