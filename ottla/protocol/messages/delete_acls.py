"""DeleteAcls: generated from protocol/schemas/delete_acls.schema by protocol.codegen; do not edit."""

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

_fmt_b = _Struct(">b")
_fmt_bb = _Struct(">bb")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 31

class DeleteAclsFilter(msgspec.Struct, gc=False):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


def _read_delete_acls_filter(buf: Buffer, pos: int, version: int) -> tuple[DeleteAclsFilter, int]:
    flex = version >= 2
    (resource_type_filter,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name_filter, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    (pattern_type_filter,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    principal_filter, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    host_filter, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    operation, permission_type = _fmt_bb.unpack_from(buf, pos)
    pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteAclsFilter(resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation, permission_type), pos


def _write_delete_acls_filter(put: Put, m: DeleteAclsFilter, version: int) -> None:
    flex = version >= 2
    put(_fmt_b.pack(m.resource_type_filter))
    put((compact_string if flex else string)(m.resource_name_filter))
    put(_fmt_b.pack(m.pattern_type_filter))
    put((compact_string if flex else string)(m.principal_filter))
    put((compact_string if flex else string)(m.host_filter))
    put(_fmt_bb.pack(m.operation, m.permission_type))
    if flex:
        put(b"\0")


class DeleteAclsRequest(msgspec.Struct, gc=False):
    filters: list[DeleteAclsFilter] = []


def _read_delete_acls_request(buf: Buffer, pos: int, version: int) -> tuple[DeleteAclsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    filters: list[DeleteAclsFilter] = []
    for _ in range(_count):
        _filters_item, pos = _read_delete_acls_filter(buf, pos, version)
        filters.append(_filters_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteAclsRequest(filters), pos


def _write_delete_acls_request(put: Put, m: DeleteAclsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.filters) + 1) if flex else length(len(m.filters)))
    for item_filters in m.filters:
        _write_delete_acls_filter(put, item_filters, version)
    if flex:
        put(b"\0")


class DeleteAclsMatchingAcl(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


def _read_delete_acls_matching_acl(buf: Buffer, pos: int, version: int) -> tuple[DeleteAclsMatchingAcl, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    (pattern_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    principal, pos = (read_compact_string if flex else read_string)(buf, pos)
    host, pos = (read_compact_string if flex else read_string)(buf, pos)
    operation, permission_type = _fmt_bb.unpack_from(buf, pos)
    pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteAclsMatchingAcl(error_code, error_message, resource_type, resource_name, pattern_type, principal, host, operation, permission_type), pos


def _write_delete_acls_matching_acl(put: Put, m: DeleteAclsMatchingAcl, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    put(_fmt_b.pack(m.pattern_type))
    put((compact_string if flex else string)(m.principal))
    put((compact_string if flex else string)(m.host))
    put(_fmt_bb.pack(m.operation, m.permission_type))
    if flex:
        put(b"\0")


class DeleteAclsFilterResult(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


def _read_delete_acls_filter_result(buf: Buffer, pos: int, version: int) -> tuple[DeleteAclsFilterResult, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    matching_acls: list[DeleteAclsMatchingAcl] = []
    for _ in range(_count):
        _matching_acls_item, pos = _read_delete_acls_matching_acl(buf, pos, version)
        matching_acls.append(_matching_acls_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteAclsFilterResult(error_code, error_message, matching_acls), pos


def _write_delete_acls_filter_result(put: Put, m: DeleteAclsFilterResult, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put(uvarint(len(m.matching_acls) + 1) if flex else length(len(m.matching_acls)))
    for item_matching_acls in m.matching_acls:
        _write_delete_acls_matching_acl(put, item_matching_acls, version)
    if flex:
        put(b"\0")


class DeleteAclsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = []


def _read_delete_acls_response(buf: Buffer, pos: int, version: int) -> tuple[DeleteAclsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    filter_results: list[DeleteAclsFilterResult] = []
    for _ in range(_count):
        _filter_results_item, pos = _read_delete_acls_filter_result(buf, pos, version)
        filter_results.append(_filter_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DeleteAclsResponse(throttle_time_ms, filter_results), pos


def _write_delete_acls_response(put: Put, m: DeleteAclsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.filter_results) + 1) if flex else length(len(m.filter_results)))
    for item_filter_results in m.filter_results:
        _write_delete_acls_filter_result(put, item_filter_results, version)
    if flex:
        put(b"\0")


decode_request = _read_delete_acls_request
encode_request = _write_delete_acls_request
decode_response = _read_delete_acls_response
encode_response = _write_delete_acls_response
