"""DescribeAcls: generated from protocol/schemas/describe_acls.schema by protocol.codegen; do not edit."""

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
_fmt_ih = _Struct(">ih")

API_KEY = 29

class DescribeAclsRequest(msgspec.Struct, gc=False):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


def _read_describe_acls_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeAclsRequest, int]:
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
    return DescribeAclsRequest(resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation, permission_type), pos


def _write_describe_acls_request(put: Put, m: DescribeAclsRequest, version: int) -> None:
    flex = version >= 2
    put(_fmt_b.pack(m.resource_type_filter))
    put((compact_string if flex else string)(m.resource_name_filter))
    put(_fmt_b.pack(m.pattern_type_filter))
    put((compact_string if flex else string)(m.principal_filter))
    put((compact_string if flex else string)(m.host_filter))
    put(_fmt_bb.pack(m.operation, m.permission_type))
    if flex:
        put(b"\0")


class AclDescription(msgspec.Struct, gc=False):
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


def _read_acl_description(buf: Buffer, pos: int, version: int) -> tuple[AclDescription, int]:
    flex = version >= 2
    principal, pos = (read_compact_string if flex else read_string)(buf, pos)
    host, pos = (read_compact_string if flex else read_string)(buf, pos)
    operation, permission_type = _fmt_bb.unpack_from(buf, pos)
    pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AclDescription(principal, host, operation, permission_type), pos


def _write_acl_description(put: Put, m: AclDescription, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.principal))
    put((compact_string if flex else string)(m.host))
    put(_fmt_bb.pack(m.operation, m.permission_type))
    if flex:
        put(b"\0")


class DescribeAclsResource(msgspec.Struct, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[AclDescription] = []


def _read_describe_acls_resource(buf: Buffer, pos: int, version: int) -> tuple[DescribeAclsResource, int]:
    flex = version >= 2
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    (pattern_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    acls: list[AclDescription] = []
    for _ in range(_count):
        _acls_item, pos = _read_acl_description(buf, pos, version)
        acls.append(_acls_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeAclsResource(resource_type, resource_name, pattern_type, acls), pos


def _write_describe_acls_resource(put: Put, m: DescribeAclsResource, version: int) -> None:
    flex = version >= 2
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    put(_fmt_b.pack(m.pattern_type))
    put(uvarint(len(m.acls) + 1) if flex else length(len(m.acls)))
    for item_acls in m.acls:
        _write_acl_description(put, item_acls, version)
    if flex:
        put(b"\0")


class DescribeAclsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = []


def _read_describe_acls_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeAclsResponse, int]:
    flex = version >= 2
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    resources: list[DescribeAclsResource] = []
    for _ in range(_count):
        _resources_item, pos = _read_describe_acls_resource(buf, pos, version)
        resources.append(_resources_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeAclsResponse(throttle_time_ms, error_code, error_message, resources), pos


def _write_describe_acls_response(put: Put, m: DescribeAclsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put(uvarint(len(m.resources) + 1) if flex else length(len(m.resources)))
    for item_resources in m.resources:
        _write_describe_acls_resource(put, item_resources, version)
    if flex:
        put(b"\0")


decode_request = _read_describe_acls_request
encode_request = _write_describe_acls_request
decode_response = _read_describe_acls_response
encode_response = _write_describe_acls_response
