"""CreateDelegationToken: generated from protocol/schemas/create_delegation_token.schema by protocol.codegen; do not edit."""

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
_fmt_q = _Struct(">q")
_fmt_qqq = _Struct(">qqq")

API_KEY = 38

class CreatableRenewers(msgspec.Struct, gc=False):
    principal_type: str = ""
    principal_name: str = ""


def _read_creatable_renewers(buf: Buffer, pos: int, version: int) -> tuple[CreatableRenewers, int]:
    flex = version >= 2
    principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreatableRenewers(principal_type, principal_name), pos


def _write_creatable_renewers(put: Put, m: CreatableRenewers, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.principal_type))
    put((compact_string if flex else string)(m.principal_name))
    if flex:
        put(b"\0")


class CreateDelegationTokenRequest(msgspec.Struct, gc=False):
    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: int = 0


def _read_create_delegation_token_request(buf: Buffer, pos: int, version: int) -> tuple[CreateDelegationTokenRequest, int]:
    flex = version >= 2
    owner_principal_type: str | None = ""
    if version >= 3:
        owner_principal_type, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    owner_principal_name: str | None = ""
    if version >= 3:
        owner_principal_name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    renewers: list[CreatableRenewers] = []
    for _ in range(_count):
        _renewers_item, pos = _read_creatable_renewers(buf, pos, version)
        renewers.append(_renewers_item)
    (max_lifetime_ms,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreateDelegationTokenRequest(owner_principal_type, owner_principal_name, renewers, max_lifetime_ms), pos


def _write_create_delegation_token_request(put: Put, m: CreateDelegationTokenRequest, version: int) -> None:
    flex = version >= 2
    if version >= 3:
        put((compact_string if flex else string)(m.owner_principal_type))
    if version >= 3:
        put((compact_string if flex else string)(m.owner_principal_name))
    put(uvarint(len(m.renewers) + 1) if flex else length(len(m.renewers)))
    for item_renewers in m.renewers:
        _write_creatable_renewers(put, item_renewers, version)
    put(_fmt_q.pack(m.max_lifetime_ms))
    if flex:
        put(b"\0")


class CreateDelegationTokenResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


def _read_create_delegation_token_response(buf: Buffer, pos: int, version: int) -> tuple[CreateDelegationTokenResponse, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    token_requester_principal_type: str = ""
    if version >= 3:
        token_requester_principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    token_requester_principal_name: str = ""
    if version >= 3:
        token_requester_principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms = _fmt_qqq.unpack_from(buf, pos)
    pos += 24
    token_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    hmac, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return CreateDelegationTokenResponse(error_code, principal_type, principal_name, token_requester_principal_type, token_requester_principal_name, issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms, token_id, hmac, throttle_time_ms), pos


def _write_create_delegation_token_response(put: Put, m: CreateDelegationTokenResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.principal_type))
    put((compact_string if flex else string)(m.principal_name))
    if version >= 3:
        put((compact_string if flex else string)(m.token_requester_principal_type))
    if version >= 3:
        put((compact_string if flex else string)(m.token_requester_principal_name))
    put(_fmt_qqq.pack(m.issue_timestamp_ms, m.expiry_timestamp_ms, m.max_timestamp_ms))
    put((compact_string if flex else string)(m.token_id))
    put((compact_bytes_length if flex else bytes_length)(m.hmac))
    put(m.hmac)
    put(_fmt_i.pack(m.throttle_time_ms))
    if flex:
        put(b"\0")


decode_request = _read_create_delegation_token_request
encode_request = _write_create_delegation_token_request
decode_response = _read_create_delegation_token_response
encode_response = _write_create_delegation_token_response
