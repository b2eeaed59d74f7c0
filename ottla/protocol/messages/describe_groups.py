"""DescribeGroups: generated from protocol/schemas/describe_groups.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    bytes_length,
    compact_bytes_length,
    compact_string,
    length,
    read_bytes,
    read_compact_bytes,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 15

class DescribeGroupsRequest(msgspec.Struct, gc=False):
    groups: list[str] = []
    include_authorized_operations: bool = False


def _read_describe_groups_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeGroupsRequest, int]:
    flex = version >= 5
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    groups: list[str] = []
    for _ in range(_count):
        _groups_item, pos = (read_compact_string if flex else read_string)(buf, pos)
        groups.append(_groups_item)
    include_authorized_operations: bool = False
    if version >= 3:
        (include_authorized_operations,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeGroupsRequest(groups, include_authorized_operations), pos


def _write_describe_groups_request(put: Put, m: DescribeGroupsRequest, version: int) -> None:
    flex = version >= 5
    put(uvarint(len(m.groups) + 1) if flex else length(len(m.groups)))
    for item_groups in m.groups:
        put((compact_string if flex else string)(item_groups))
    if version >= 3:
        put(_fmt_B_.pack(m.include_authorized_operations))
    if flex:
        put(b"\0")


class DescribedGroupMember(msgspec.Struct, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


def _read_described_group_member(buf: Buffer, pos: int, version: int) -> tuple[DescribedGroupMember, int]:
    flex = version >= 5
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 4:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    client_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    client_host, pos = (read_compact_string if flex else read_string)(buf, pos)
    member_metadata, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    member_assignment, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribedGroupMember(member_id, group_instance_id, client_id, client_host, member_metadata, member_assignment), pos


def _write_described_group_member(put: Put, m: DescribedGroupMember, version: int) -> None:
    flex = version >= 5
    put((compact_string if flex else string)(m.member_id))
    if version >= 4:
        put((compact_string if flex else string)(m.group_instance_id))
    put((compact_string if flex else string)(m.client_id))
    put((compact_string if flex else string)(m.client_host))
    put((compact_bytes_length if flex else bytes_length)(m.member_metadata))
    put(m.member_metadata)
    put((compact_bytes_length if flex else bytes_length)(m.member_assignment))
    put(m.member_assignment)
    if flex:
        put(b"\0")


class DescribedGroup(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: int = -2147483648


def _read_described_group(buf: Buffer, pos: int, version: int) -> tuple[DescribedGroup, int]:
    flex = version >= 5
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message: str | None = None
    if version >= 6:
        error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_state, pos = (read_compact_string if flex else read_string)(buf, pos)
    protocol_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    protocol_data, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    members: list[DescribedGroupMember] = []
    for _ in range(_count):
        _members_item, pos = _read_described_group_member(buf, pos, version)
        members.append(_members_item)
    authorized_operations: int = -2147483648
    if version >= 3:
        (authorized_operations,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribedGroup(error_code, error_message, group_id, group_state, protocol_type, protocol_data, members, authorized_operations), pos


def _write_described_group(put: Put, m: DescribedGroup, version: int) -> None:
    flex = version >= 5
    put(_fmt_h.pack(m.error_code))
    if version >= 6:
        put((compact_string if flex else string)(m.error_message))
    put((compact_string if flex else string)(m.group_id))
    put((compact_string if flex else string)(m.group_state))
    put((compact_string if flex else string)(m.protocol_type))
    put((compact_string if flex else string)(m.protocol_data))
    put(uvarint(len(m.members) + 1) if flex else length(len(m.members)))
    for item_members in m.members:
        _write_described_group_member(put, item_members, version)
    if version >= 3:
        put(_fmt_i.pack(m.authorized_operations))
    if flex:
        put(b"\0")


class DescribeGroupsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = []


def _read_describe_groups_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeGroupsResponse, int]:
    flex = version >= 5
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    groups: list[DescribedGroup] = []
    for _ in range(_count):
        _groups_item, pos = _read_described_group(buf, pos, version)
        groups.append(_groups_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeGroupsResponse(throttle_time_ms, groups), pos


def _write_describe_groups_response(put: Put, m: DescribeGroupsResponse, version: int) -> None:
    flex = version >= 5
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.groups) + 1) if flex else length(len(m.groups)))
    for item_groups in m.groups:
        _write_described_group(put, item_groups, version)
    if flex:
        put(b"\0")


decode_request = _read_describe_groups_request
encode_request = _write_describe_groups_request
decode_response = _read_describe_groups_response
encode_response = _write_describe_groups_response
