"""ConsumerGroupCurrentMemberAssignmentValue: generated from protocol/schemas/consumer_group_current_member_assignment_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_iib = _Struct(">iib")

RECORD_TYPE = 8
MIN_VERSION = 0
MAX_VERSION = 0

class TopicPartitions(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    partitions: list[int] = []
    assignment_epochs: list[int] | None = []


def _read_topic_partitions(buf: Buffer, pos: int, version: int) -> tuple[TopicPartitions, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
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
    return TopicPartitions(topic_id, partitions, assignment_epochs), pos


def _write_topic_partitions(put: Put, m: TopicPartitions, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
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


class ConsumerGroupCurrentMemberAssignmentValue(msgspec.Struct, gc=False):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[TopicPartitions] = []
    partitions_pending_revocation: list[TopicPartitions] = []


def _read_consumer_group_current_member_assignment_value(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupCurrentMemberAssignmentValue, int]:
    member_epoch, previous_member_epoch, state = _fmt_iib.unpack_from(buf, pos)
    pos += 9
    _count, pos = read_compact_length(buf, pos)
    assigned_partitions: list[TopicPartitions] = []
    for _ in range(_count):
        _assigned_partitions_item, pos = _read_topic_partitions(buf, pos, version)
        assigned_partitions.append(_assigned_partitions_item)
    _count, pos = read_compact_length(buf, pos)
    partitions_pending_revocation: list[TopicPartitions] = []
    for _ in range(_count):
        _partitions_pending_revocation_item, pos = _read_topic_partitions(buf, pos, version)
        partitions_pending_revocation.append(_partitions_pending_revocation_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ConsumerGroupCurrentMemberAssignmentValue(member_epoch, previous_member_epoch, state, assigned_partitions, partitions_pending_revocation), pos


def _write_consumer_group_current_member_assignment_value(put: Put, m: ConsumerGroupCurrentMemberAssignmentValue, version: int) -> None:
    put(_fmt_iib.pack(m.member_epoch, m.previous_member_epoch, m.state))
    put(uvarint(len(m.assigned_partitions) + 1))
    for item_assigned_partitions in m.assigned_partitions:
        _write_topic_partitions(put, item_assigned_partitions, version)
    put(uvarint(len(m.partitions_pending_revocation) + 1))
    for item_partitions_pending_revocation in m.partitions_pending_revocation:
        _write_topic_partitions(put, item_partitions_pending_revocation, version)
    put(b"\0")


decode = _read_consumer_group_current_member_assignment_value
encode = _write_consumer_group_current_member_assignment_value
