"""ListGroups: generated from protocol/schemas/list_groups.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_string,
    read_length,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 16

class ListGroupsRequest(msgspec.Struct, gc=False):
    states_filter: list[str] = []
    types_filter: list[str] = []


def _read_list_groups_request(buf: Buffer, pos: int, version: int) -> tuple[ListGroupsRequest, int]:
    flex = version >= 3
    states_filter: list[str] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        states_filter = []
        for _ in range(_count):
            _states_filter_item, pos = (read_compact_string if flex else read_string)(buf, pos)
            states_filter.append(_states_filter_item)
    types_filter: list[str] = []
    if version >= 5:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        types_filter = []
        for _ in range(_count):
            _types_filter_item, pos = (read_compact_string if flex else read_string)(buf, pos)
            types_filter.append(_types_filter_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListGroupsRequest(states_filter, types_filter), pos


def _write_list_groups_request(put: Put, m: ListGroupsRequest, version: int) -> None:
    flex = version >= 3
    if version >= 4:
        put(uvarint(len(m.states_filter) + 1) if flex else length(len(m.states_filter)))
        for item_states_filter in m.states_filter:
            put((compact_string if flex else string)(item_states_filter))
    if version >= 5:
        put(uvarint(len(m.types_filter) + 1) if flex else length(len(m.types_filter)))
        for item_types_filter in m.types_filter:
            put((compact_string if flex else string)(item_types_filter))
    if flex:
        put(b"\0")


class ListedGroup(msgspec.Struct, gc=False):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


def _read_listed_group(buf: Buffer, pos: int, version: int) -> tuple[ListedGroup, int]:
    flex = version >= 3
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    protocol_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_state: str = ""
    if version >= 4:
        group_state, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_type: str = ""
    if version >= 5:
        group_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListedGroup(group_id, protocol_type, group_state, group_type), pos


def _write_listed_group(put: Put, m: ListedGroup, version: int) -> None:
    flex = version >= 3
    put((compact_string if flex else string)(m.group_id))
    put((compact_string if flex else string)(m.protocol_type))
    if version >= 4:
        put((compact_string if flex else string)(m.group_state))
    if version >= 5:
        put((compact_string if flex else string)(m.group_type))
    if flex:
        put(b"\0")


class ListGroupsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = []


def _read_list_groups_response(buf: Buffer, pos: int, version: int) -> tuple[ListGroupsResponse, int]:
    flex = version >= 3
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    groups: list[ListedGroup] = []
    for _ in range(_count):
        _groups_item, pos = _read_listed_group(buf, pos, version)
        groups.append(_groups_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ListGroupsResponse(throttle_time_ms, error_code, groups), pos


def _write_list_groups_response(put: Put, m: ListGroupsResponse, version: int) -> None:
    flex = version >= 3
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    put(_fmt_h.pack(m.error_code))
    put(uvarint(len(m.groups) + 1) if flex else length(len(m.groups)))
    for item_groups in m.groups:
        _write_listed_group(put, item_groups, version)
    if flex:
        put(b"\0")


decode_request = _read_list_groups_request
encode_request = _write_list_groups_request
decode_response = _read_list_groups_response
encode_response = _write_list_groups_response
