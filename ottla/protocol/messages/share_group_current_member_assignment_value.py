"""ShareGroupCurrentMemberAssignmentValue: generated from protocol/schemas/share_group_current_member_assignment_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    read_compact_length,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_iib = _Struct(">iib")

RECORD_TYPE = 14
MIN_VERSION = 0
MAX_VERSION = 0

class TopicPartitions(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[int] = []


def _read_topic_partitions(buf: Buffer, pos: int, version: int) -> tuple[TopicPartitions, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicPartitions(topic_id, partitions), pos


def _write_topic_partitions(put: Put, m: TopicPartitions, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class ShareGroupCurrentMemberAssignmentValue(msgspec.Struct, gc=False):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[TopicPartitions] = []


def _read_share_group_current_member_assignment_value(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupCurrentMemberAssignmentValue, int]:
    member_epoch, previous_member_epoch, state = _fmt_iib.unpack_from(buf, pos)
    pos += 9
    _count, pos = read_compact_length(buf, pos)
    assigned_partitions: list[TopicPartitions] = []
    for _ in range(_count):
        _assigned_partitions_item, pos = _read_topic_partitions(buf, pos, version)
        assigned_partitions.append(_assigned_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupCurrentMemberAssignmentValue(member_epoch, previous_member_epoch, state, assigned_partitions), pos


def _write_share_group_current_member_assignment_value(put: Put, m: ShareGroupCurrentMemberAssignmentValue, version: int) -> None:
    put(_fmt_iib.pack(m.member_epoch, m.previous_member_epoch, m.state))
    put(uvarint(len(m.assigned_partitions) + 1))
    for item_assigned_partitions in m.assigned_partitions:
        _write_topic_partitions(put, item_assigned_partitions, version)
    put(b"\0")


decode = _read_share_group_current_member_assignment_value
encode = _write_share_group_current_member_assignment_value
