"""CreateAcls: generated from protocol/schemas/create_acls.schema by protocol.codegen; do not edit."""

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

API_KEY = 30

class AclCreation(msgspec.Struct, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


def _read_acl_creation(buf: Buffer, pos: int, version: int) -> tuple[AclCreation, int]:
    flex = version >= 2
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    (resource_pattern_type,) = _fmt_b.unpack_from(buf, pos)
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
    return AclCreation(resource_type, resource_name, resource_pattern_type, principal, host, operation, permission_type), pos


def _write_acl_creation(put: Put, m: AclCreation, version: int) -> None:
    flex = version >= 2
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    put(_fmt_b.pack(m.resource_pattern_type))
    put((compact_string if flex else string)(m.principal))
    put((compact_string if flex else string)(m.host))
    put(_fmt_bb.pack(m.operation, m.permission_type))
    if flex:
        put(b"\0")


class CreateAclsRequest(msgspec.Struct, gc=False):
    creations: list[AclCreation] = []


def _read_create_acls_request(buf: Buffer, pos: int, version: int) -> tuple[CreateAclsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    creations: list[AclCreation] = []
    for _ in range(_count):
        _creations_item, pos = _read_acl_creation(buf, pos, version)
        creations.append(_creations_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreateAclsRequest(creations), pos


def _write_create_acls_request(put: Put, m: CreateAclsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.creations) + 1) if flex else length(len(m.creations)))
    for item_creations in m.creations:
        _write_acl_creation(put, item_creations, version)
    if flex:
        put(b"\0")


class AclCreationResult(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""


def _read_acl_creation_result(buf: Buffer, pos: int, version: int) -> tuple[AclCreationResult, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AclCreationResult(error_code, error_message), pos


def _write_acl_creation_result(put: Put, m: AclCreationResult, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    if flex:
        put(b"\0")


class CreateAclsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    results: list[AclCreationResult] = []


def _read_create_acls_response(buf: Buffer, pos: int, version: int) -> tuple[CreateAclsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results: list[AclCreationResult] = []
    for _ in range(_count):
        _results_item, pos = _read_acl_creation_result(buf, pos, version)
        results.append(_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreateAclsResponse(throttle_time_ms, results), pos


def _write_create_acls_response(put: Put, m: CreateAclsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.results) + 1) if flex else length(len(m.results)))
    for item_results in m.results:
        _write_acl_creation_result(put, item_results, version)
    if flex:
        put(b"\0")


decode_request = _read_create_acls_request
encode_request = _write_create_acls_request
decode_response = _read_create_acls_response
encode_response = _write_create_acls_response
