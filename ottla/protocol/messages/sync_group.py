"""SyncGroup: generated from protocol/schemas/sync_group.schema by protocol.codegen; do not edit."""

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

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 14

class SyncGroupRequestAssignment(msgspec.Struct, gc=False):
    member_id: str = ""
    assignment: bytes = b""


def _read_sync_group_request_assignment(buf: Buffer, pos: int, version: int) -> tuple[SyncGroupRequestAssignment, int]:
    flex = version >= 4
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    assignment, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SyncGroupRequestAssignment(member_id, assignment), pos


def _write_sync_group_request_assignment(put: Put, m: SyncGroupRequestAssignment, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.member_id))
    put((compact_bytes_length if flex else bytes_length)(m.assignment))
    put(m.assignment)
    if flex:
        put(b"\0")


class SyncGroupRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = []


def _read_sync_group_request(buf: Buffer, pos: int, version: int) -> tuple[SyncGroupRequest, int]:
    flex = version >= 4
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    (generation_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 3:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    protocol_type: str | None = None
    if version >= 5:
        protocol_type, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    protocol_name: str | None = None
    if version >= 5:
        protocol_name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    assignments: list[SyncGroupRequestAssignment] = []
    for _ in range(_count):
        _assignments_item, pos = _read_sync_group_request_assignment(buf, pos, version)
        assignments.append(_assignments_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SyncGroupRequest(group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name, assignments), pos


def _write_sync_group_request(put: Put, m: SyncGroupRequest, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.group_id))
    put(_fmt_i.pack(m.generation_id))
    put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put((compact_string if flex else string)(m.group_instance_id))
    if version >= 5:
        put((compact_string if flex else string)(m.protocol_type))
    if version >= 5:
        put((compact_string if flex else string)(m.protocol_name))
    put(uvarint(len(m.assignments) + 1) if flex else length(len(m.assignments)))
    for item_assignments in m.assignments:
        _write_sync_group_request_assignment(put, item_assignments, version)
    if flex:
        put(b"\0")


class SyncGroupResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


def _read_sync_group_response(buf: Buffer, pos: int, version: int) -> tuple[SyncGroupResponse, int]:
    flex = version >= 4
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    protocol_type: str | None = None
    if version >= 5:
        protocol_type, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    protocol_name: str | None = None
    if version >= 5:
        protocol_name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    assignment, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SyncGroupResponse(throttle_time_ms, error_code, protocol_type, protocol_name, assignment), pos


def _write_sync_group_response(put: Put, m: SyncGroupResponse, version: int) -> None:
    flex = version >= 4
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(_fmt_h.pack(m.error_code))
    if version >= 5:
        put((compact_string if flex else string)(m.protocol_type))
    if version >= 5:
        put((compact_string if flex else string)(m.protocol_name))
    put((compact_bytes_length if flex else bytes_length)(m.assignment))
    put(m.assignment)
    if flex:
        put(b"\0")


decode_request = _read_sync_group_request
encode_request = _write_sync_group_request
decode_response = _read_sync_group_response
encode_response = _write_sync_group_response
