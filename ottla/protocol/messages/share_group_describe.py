"""ShareGroupDescribe: generated from protocol/schemas/share_group_describe.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_B_ = _Struct(">?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ii = _Struct(">ii")

API_KEY = 77

class ShareGroupDescribeRequest(msgspec.Struct, gc=False):
    group_ids: list[str] = []
    include_authorized_operations: bool = False


def _read_share_group_describe_request(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupDescribeRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    group_ids: list[str] = []
    for _ in range(_count):
        _group_ids_item, pos = read_compact_string(buf, pos)
        group_ids.append(_group_ids_item)
    (include_authorized_operations,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupDescribeRequest(group_ids, include_authorized_operations), pos


def _write_share_group_describe_request(put: Put, m: ShareGroupDescribeRequest, version: int) -> None:
    put(uvarint(len(m.group_ids) + 1))
    for item_group_ids in m.group_ids:
        put(compact_string(item_group_ids))
    put(_fmt_B_.pack(m.include_authorized_operations))
    put(b"\0")


class TopicPartitions(msgspec.Struct, gc=False):
    topic_id: bytes = NO_UUID
    topic_name: str = ""
    partitions: list[int] = []


def _read_topic_partitions(buf: Buffer, pos: int, version: int) -> tuple[TopicPartitions, int]:
    (topic_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    topic_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return TopicPartitions(topic_id, topic_name, partitions), pos


def _write_topic_partitions(put: Put, m: TopicPartitions, version: int) -> None:
    put(_fmt_U_.pack(m.topic_id))
    put(compact_string(m.topic_name))
    put(uvarint(len(m.partitions) + 1))
    put(pack(f">{len(m.partitions)}i", *m.partitions))
    put(b"\0")


class Assignment(msgspec.Struct, gc=False):
    topic_partitions: list[TopicPartitions] = []


def _read_assignment(buf: Buffer, pos: int, version: int) -> tuple[Assignment, int]:
    _count, pos = read_compact_length(buf, pos)
    topic_partitions: list[TopicPartitions] = []
    for _ in range(_count):
        _topic_partitions_item, pos = _read_topic_partitions(buf, pos, version)
        topic_partitions.append(_topic_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Assignment(topic_partitions), pos


def _write_assignment(put: Put, m: Assignment, version: int) -> None:
    put(uvarint(len(m.topic_partitions) + 1))
    for item_topic_partitions in m.topic_partitions:
        _write_topic_partitions(put, item_topic_partitions, version)
    put(b"\0")


class Member(msgspec.Struct, gc=False):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: Assignment = msgspec.field(default_factory=Assignment)


def _read_member(buf: Buffer, pos: int, version: int) -> tuple[Member, int]:
    member_id, pos = read_compact_string(buf, pos)
    rack_id, pos = read_compact_nullable_string(buf, pos)
    (member_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    client_id, pos = read_compact_string(buf, pos)
    client_host, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    subscribed_topic_names: list[str] = []
    for _ in range(_count):
        _subscribed_topic_names_item, pos = read_compact_string(buf, pos)
        subscribed_topic_names.append(_subscribed_topic_names_item)
    assignment, pos = _read_assignment(buf, pos, version)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Member(member_id, rack_id, member_epoch, client_id, client_host, subscribed_topic_names, assignment), pos


def _write_member(put: Put, m: Member, version: int) -> None:
    put(compact_string(m.member_id))
    put(compact_string(m.rack_id))
    put(_fmt_i.pack(m.member_epoch))
    put(compact_string(m.client_id))
    put(compact_string(m.client_host))
    put(uvarint(len(m.subscribed_topic_names) + 1))
    for item_subscribed_topic_names in m.subscribed_topic_names:
        put(compact_string(item_subscribed_topic_names))
    _write_assignment(put, m.assignment, version)
    put(b"\0")


class DescribedGroup(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = []
    authorized_operations: int = -2147483648


def _read_described_group(buf: Buffer, pos: int, version: int) -> tuple[DescribedGroup, int]:
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    group_id, pos = read_compact_string(buf, pos)
    group_state, pos = read_compact_string(buf, pos)
    group_epoch, assignment_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    assignor_name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    members: list[Member] = []
    for _ in range(_count):
        _members_item, pos = _read_member(buf, pos, version)
        members.append(_members_item)
    (authorized_operations,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribedGroup(error_code, error_message, group_id, group_state, group_epoch, assignment_epoch, assignor_name, members, authorized_operations), pos


def _write_described_group(put: Put, m: DescribedGroup, version: int) -> None:
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(compact_string(m.group_id))
    put(compact_string(m.group_state))
    put(_fmt_ii.pack(m.group_epoch, m.assignment_epoch))
    put(compact_string(m.assignor_name))
    put(uvarint(len(m.members) + 1))
    for item_members in m.members:
        _write_member(put, item_members, version)
    put(_fmt_i.pack(m.authorized_operations))
    put(b"\0")


class ShareGroupDescribeResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = []


def _read_share_group_describe_response(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupDescribeResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    groups: list[DescribedGroup] = []
    for _ in range(_count):
        _groups_item, pos = _read_described_group(buf, pos, version)
        groups.append(_groups_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupDescribeResponse(throttle_time_ms, groups), pos


def _write_share_group_describe_response(put: Put, m: ShareGroupDescribeResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.groups) + 1))
    for item_groups in m.groups:
        _write_described_group(put, item_groups, version)
    put(b"\0")


decode_request = _read_share_group_describe_request
encode_request = _write_share_group_describe_request
decode_response = _read_share_group_describe_response
encode_response = _write_share_group_describe_response
