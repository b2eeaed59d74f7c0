"""JoinGroup: generated from protocol/schemas/join_group.schema by protocol.codegen; do not edit."""

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
_fmt_hi = _Struct(">hi")
_fmt_i = _Struct(">i")

API_KEY = 11

class JoinGroupRequestProtocol(msgspec.Struct, gc=False):
    name: str = ""
    metadata: bytes = b""


def _read_join_group_request_protocol(buf: Buffer, pos: int, version: int) -> tuple[JoinGroupRequestProtocol, int]:
    flex = version >= 6
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    metadata, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return JoinGroupRequestProtocol(name, metadata), pos


def _write_join_group_request_protocol(put: Put, m: JoinGroupRequestProtocol, version: int) -> None:
    flex = version >= 6
    put((compact_string if flex else string)(m.name))
    put((compact_bytes_length if flex else bytes_length)(m.metadata))
    put(m.metadata)
    if flex:
        put(b"\0")


class JoinGroupRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: str | None = None


def _read_join_group_request(buf: Buffer, pos: int, version: int) -> tuple[JoinGroupRequest, int]:
    flex = version >= 6
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    (session_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    rebalance_timeout_ms: int = -1
    if version >= 1:
        (rebalance_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 5:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    protocol_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    protocols: list[JoinGroupRequestProtocol] = []
    for _ in range(_count):
        _protocols_item, pos = _read_join_group_request_protocol(buf, pos, version)
        protocols.append(_protocols_item)
    reason: str | None = None
    if version >= 8:
        reason, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return JoinGroupRequest(group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type, protocols, reason), pos


def _write_join_group_request(put: Put, m: JoinGroupRequest, version: int) -> None:
    flex = version >= 6
    put((compact_string if flex else string)(m.group_id))
    put(_fmt_i.pack(m.session_timeout_ms))
    if version >= 1:
        put(_fmt_i.pack(m.rebalance_timeout_ms))
    put((compact_string if flex else string)(m.member_id))
    if version >= 5:
        put((compact_string if flex else string)(m.group_instance_id))
    put((compact_string if flex else string)(m.protocol_type))
    put(uvarint(len(m.protocols) + 1) if flex else length(len(m.protocols)))
    for item_protocols in m.protocols:
        _write_join_group_request_protocol(put, item_protocols, version)
    if version >= 8:
        put((compact_string if flex else string)(m.reason))
    if flex:
        put(b"\0")


class JoinGroupResponseMember(msgspec.Struct, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


def _read_join_group_response_member(buf: Buffer, pos: int, version: int) -> tuple[JoinGroupResponseMember, int]:
    flex = version >= 6
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 5:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    metadata, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return JoinGroupResponseMember(member_id, group_instance_id, metadata), pos


def _write_join_group_response_member(put: Put, m: JoinGroupResponseMember, version: int) -> None:
    flex = version >= 6
    put((compact_string if flex else string)(m.member_id))
    if version >= 5:
        put((compact_string if flex else string)(m.group_instance_id))
    put((compact_bytes_length if flex else bytes_length)(m.metadata))
    put(m.metadata)
    if flex:
        put(b"\0")


class JoinGroupResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


def _read_join_group_response(buf: Buffer, pos: int, version: int) -> tuple[JoinGroupResponse, int]:
    flex = version >= 6
    throttle_time_ms: int = 0
    if version >= 2:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    error_code, generation_id = _fmt_hi.unpack_from(buf, pos)
    pos += 6
    protocol_type: str | None = None
    if version >= 7:
        protocol_type, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    protocol_name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    leader, pos = (read_compact_string if flex else read_string)(buf, pos)
    skip_assignment: bool = False
    if version >= 9:
        (skip_assignment,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    members: list[JoinGroupResponseMember] = []
    for _ in range(_count):
        _members_item, pos = _read_join_group_response_member(buf, pos, version)
        members.append(_members_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return JoinGroupResponse(throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members), pos


def _write_join_group_response(put: Put, m: JoinGroupResponse, version: int) -> None:
    flex = version >= 6
    if version >= 2:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(_fmt_hi.pack(m.error_code, m.generation_id))
    if version >= 7:
        put((compact_string if flex else string)(m.protocol_type))
    put((compact_string if flex else string)(m.protocol_name))
    put((compact_string if flex else string)(m.leader))
    if version >= 9:
        put(_fmt_B_.pack(m.skip_assignment))
    put((compact_string if flex else string)(m.member_id))
    put(uvarint(len(m.members) + 1) if flex else length(len(m.members)))
    for item_members in m.members:
        _write_join_group_response_member(put, item_members, version)
    if flex:
        put(b"\0")


decode_request = _read_join_group_request
encode_request = _write_join_group_request
decode_response = _read_join_group_response
encode_response = _write_join_group_response
