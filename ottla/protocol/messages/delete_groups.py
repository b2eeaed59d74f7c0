"""DeleteGroups: generated from protocol/schemas/delete_groups.schema by protocol.codegen; do not edit."""

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

API_KEY = 42

class DeleteGroupsRequest(msgspec.Struct, gc=False):
    groups_names: list[str] = []


def _read_delete_groups_request(buf: Buffer, pos: int, version: int) -> tuple[DeleteGroupsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    groups_names: list[str] = []
    for _ in range(_count):
        _groups_names_item, pos = (read_compact_string if flex else read_string)(buf, pos)
        groups_names.append(_groups_names_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteGroupsRequest(groups_names), pos


def _write_delete_groups_request(put: Put, m: DeleteGroupsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.groups_names) + 1) if flex else length(len(m.groups_names)))
    for item_groups_names in m.groups_names:
        put((compact_string if flex else string)(item_groups_names))
    if flex:
        put(b"\0")


class DeletableGroupResult(msgspec.Struct, gc=False):
    group_id: str = ""
    error_code: int = 0
    error_message: str | None = None


def _read_deletable_group_result(buf: Buffer, pos: int, version: int) -> tuple[DeletableGroupResult, int]:
    flex = version >= 2
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message: str | None = None
    if version >= 3:
        error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeletableGroupResult(group_id, error_code, error_message), pos


def _write_deletable_group_result(put: Put, m: DeletableGroupResult, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.group_id))
    put(_fmt_h.pack(m.error_code))
    if version >= 3:
        put((compact_string if flex else string)(m.error_message))
    if flex:
        put(b"\0")


class DeleteGroupsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = []


def _read_delete_groups_response(buf: Buffer, pos: int, version: int) -> tuple[DeleteGroupsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results: list[DeletableGroupResult] = []
    for _ in range(_count):
        _results_item, pos = _read_deletable_group_result(buf, pos, version)
        results.append(_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteGroupsResponse(throttle_time_ms, results), pos


def _write_delete_groups_response(put: Put, m: DeleteGroupsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.results) + 1) if flex else length(len(m.results)))
    for item_results in m.results:
        _write_deletable_group_result(put, item_results, version)
    if flex:
        put(b"\0")


decode_request = _read_delete_groups_request
encode_request = _write_delete_groups_request
decode_response = _read_delete_groups_response
encode_response = _write_delete_groups_response
