"""ShareGroupTargetAssignmentMemberValue: generated from protocol/schemas/share_group_target_assignment_member_value.schema by protocol.codegen; do not edit."""

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

RECORD_TYPE = 13
MIN_VERSION = 0
MAX_VERSION = 0

class TopicPartition(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[int] = []


def _read_topic_partition(buf: Buffer, pos: int, version: int) -> tuple[TopicPartition, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicPartition(topic_id, partitions), pos


def _write_topic_partition(put: Put, m: TopicPartition, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class ShareGroupTargetAssignmentMemberValue(msgspec.Struct, gc=False):
    topic_partitions: list[TopicPartition] = []


def _read_share_group_target_assignment_member_value(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupTargetAssignmentMemberValue, int]:
    _count, pos = read_compact_length(buf, pos)
    topic_partitions: list[TopicPartition] = []
    for _ in range(_count):
        _topic_partitions_item, pos = _read_topic_partition(buf, pos, version)
        topic_partitions.append(_topic_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupTargetAssignmentMemberValue(topic_partitions), pos


def _write_share_group_target_assignment_member_value(put: Put, m: ShareGroupTargetAssignmentMemberValue, version: int) -> None:
    put(uvarint(len(m.topic_partitions) + 1))
    for item_topic_partitions in m.topic_partitions:
        _write_topic_partition(put, item_topic_partitions, version)
    put(b"\0")


decode = _read_share_group_target_assignment_member_value
encode = _write_share_group_target_assignment_member_value
