"""Heartbeat: generated from protocol/schemas/heartbeat.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
)

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 12

class HeartbeatRequest(msgspec.Struct, gc=False):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


def _read_heartbeat_request(buf: Buffer, pos: int, version: int) -> tuple[HeartbeatRequest, int]:
    flex = version >= 4
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    (generation_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 3:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return HeartbeatRequest(group_id, generation_id, member_id, group_instance_id), pos


def _write_heartbeat_request(put: Put, m: HeartbeatRequest, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.group_id))
    put(_fmt_i.pack(m.generation_id))
    put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put((compact_string if flex else string)(m.group_instance_id))
    if flex:
        put(b"\0")


class HeartbeatResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0


def _read_heartbeat_response(buf: Buffer, pos: int, version: int) -> tuple[HeartbeatResponse, int]:
    flex = version >= 4
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return HeartbeatResponse(throttle_time_ms, error_code), pos


def _write_heartbeat_response(put: Put, m: HeartbeatResponse, version: int) -> None:
    flex = version >= 4
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(_fmt_h.pack(m.error_code))
    if flex:
        put(b"\0")


decode_request = _read_heartbeat_request
encode_request = _write_heartbeat_request
decode_response = _read_heartbeat_response
encode_response = _write_heartbeat_response
