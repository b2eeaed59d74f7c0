"""LeaveGroup: generated from protocol/schemas/leave_group.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
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

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 13

class MemberIdentity(msgspec.Struct, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


def _read_member_identity(buf: Buffer, pos: int, version: int) -> tuple[MemberIdentity, int]:
    flex = version >= 4
    member_id: str = ""
    if version >= 3:
        member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 3:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    reason: str | None = None
    if version >= 5:
        reason, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MemberIdentity(member_id, group_instance_id, reason), pos


def _write_member_identity(put: Put, m: MemberIdentity, version: int) -> None:
    flex = version >= 4
    if version >= 3:
        put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put((compact_string if flex else string)(m.group_instance_id))
    if version >= 5:
        put((compact_string if flex else string)(m.reason))
    if flex:
        put(b"\0")


class LeaveGroupRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str = ""
    members: list[MemberIdentity] = []


def _read_leave_group_request(buf: Buffer, pos: int, version: int) -> tuple[LeaveGroupRequest, int]:
    flex = version >= 4
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    member_id: str = ""
    if version <= 2:
        member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    members: list[MemberIdentity] = []
    if version >= 3:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        members = []
        for _ in range(_count):
            _members_item, pos = _read_member_identity(buf, pos, version)
            members.append(_members_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return LeaveGroupRequest(group_id, member_id, members), pos


def _write_leave_group_request(put: Put, m: LeaveGroupRequest, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.group_id))
    if version <= 2:
        put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put(uvarint(len(m.members) + 1) if flex else length(len(m.members)))
        for item_members in m.members:
            _write_member_identity(put, item_members, version)
    if flex:
        put(b"\0")


class MemberResponse(msgspec.Struct, gc=False):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


def _read_member_response(buf: Buffer, pos: int, version: int) -> tuple[MemberResponse, int]:
    flex = version >= 4
    member_id: str = ""
    if version >= 3:
        member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = ""
    if version >= 3:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    error_code: int = 0
    if version >= 3:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MemberResponse(member_id, group_instance_id, error_code), pos


def _write_member_response(put: Put, m: MemberResponse, version: int) -> None:
    flex = version >= 4
    if version >= 3:
        put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put((compact_string if flex else string)(m.group_instance_id))
    if version >= 3:
        put(_fmt_h.pack(m.error_code))
    if flex:
        put(b"\0")


class LeaveGroupResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = []


def _read_leave_group_response(buf: Buffer, pos: int, version: int) -> tuple[LeaveGroupResponse, int]:
    flex = version >= 4
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    members: list[MemberResponse] = []
    if version >= 3:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        members = []
        for _ in range(_count):
            _members_item, pos = _read_member_response(buf, pos, version)
            members.append(_members_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return LeaveGroupResponse(throttle_time_ms, error_code, members), pos


def _write_leave_group_response(put: Put, m: LeaveGroupResponse, version: int) -> None:
    flex = version >= 4
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(_fmt_h.pack(m.error_code))
    if version >= 3:
        put(uvarint(len(m.members) + 1) if flex else length(len(m.members)))
        for item_members in m.members:
            _write_member_response(put, item_members, version)
    if flex:
        put(b"\0")


decode_request = _read_leave_group_request
encode_request = _write_leave_group_request
decode_response = _read_leave_group_response
encode_response = _write_leave_group_response
