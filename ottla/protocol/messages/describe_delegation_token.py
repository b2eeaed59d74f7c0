"""DescribeDelegationToken: generated from protocol/schemas/describe_delegation_token.schema by protocol.codegen; do not edit."""

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
    read_compact_nullable_length,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_qqq = _Struct(">qqq")

API_KEY = 41

class DescribeDelegationTokenOwner(msgspec.Struct, gc=False):
    principal_type: str = ""
    principal_name: str = ""


def _read_describe_delegation_token_owner(buf: Buffer, pos: int, version: int) -> tuple[DescribeDelegationTokenOwner, int]:
    flex = version >= 2
    principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeDelegationTokenOwner(principal_type, principal_name), pos


def _write_describe_delegation_token_owner(put: Put, m: DescribeDelegationTokenOwner, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.principal_type))
    put((compact_string if flex else string)(m.principal_name))
    if flex:
        put(b"\0")


class DescribeDelegationTokenRequest(msgspec.Struct, gc=False):
    owners: list[DescribeDelegationTokenOwner] | None = []


def _read_describe_delegation_token_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeDelegationTokenRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    owners: list[DescribeDelegationTokenOwner] | None = None
    if _count >= 0:
        owners = []
        for _ in range(_count):
            _owners_item, pos = _read_describe_delegation_token_owner(buf, pos, version)
            owners.append(_owners_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeDelegationTokenRequest(owners), pos


def _write_describe_delegation_token_request(put: Put, m: DescribeDelegationTokenRequest, version: int) -> None:
    flex = version >= 2
    if m.owners is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.owners) + 1) if flex else length(len(m.owners)))
        for item_owners in m.owners:
            _write_describe_delegation_token_owner(put, item_owners, version)
    if flex:
        put(b"\0")


class DescribedDelegationTokenRenewer(msgspec.Struct, gc=False):
    principal_type: str = ""
    principal_name: str = ""


def _read_described_delegation_token_renewer(buf: Buffer, pos: int, version: int) -> tuple[DescribedDelegationTokenRenewer, int]:
    flex = version >= 2
    principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribedDelegationTokenRenewer(principal_type, principal_name), pos


def _write_described_delegation_token_renewer(put: Put, m: DescribedDelegationTokenRenewer, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.principal_type))
    put((compact_string if flex else string)(m.principal_name))
    if flex:
        put(b"\0")


class DescribedDelegationToken(msgspec.Struct, gc=False):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = []


def _read_described_delegation_token(buf: Buffer, pos: int, version: int) -> tuple[DescribedDelegationToken, int]:
    flex = version >= 2
    principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    token_requester_principal_type: str = ""
    if version >= 3:
        token_requester_principal_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    token_requester_principal_name: str = ""
    if version >= 3:
        token_requester_principal_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    issue_timestamp, expiry_timestamp, max_timestamp = _fmt_qqq.unpack_from(buf, pos)
    pos += 24
    token_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    hmac, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    renewers: list[DescribedDelegationTokenRenewer] = []
    for _ in range(_count):
        _renewers_item, pos = _read_described_delegation_token_renewer(buf, pos, version)
        renewers.append(_renewers_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribedDelegationToken(principal_type, principal_name, token_requester_principal_type, token_requester_principal_name, issue_timestamp, expiry_timestamp, max_timestamp, token_id, hmac, renewers), pos


def _write_described_delegation_token(put: Put, m: DescribedDelegationToken, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.principal_type))
    put((compact_string if flex else string)(m.principal_name))
    if version >= 3:
        put((compact_string if flex else string)(m.token_requester_principal_type))
    if version >= 3:
        put((compact_string if flex else string)(m.token_requester_principal_name))
    put(_fmt_qqq.pack(m.issue_timestamp, m.expiry_timestamp, m.max_timestamp))
    put((compact_string if flex else string)(m.token_id))
    put((compact_bytes_length if flex else bytes_length)(m.hmac))
    put(m.hmac)
    put(uvarint(len(m.renewers) + 1) if flex else length(len(m.renewers)))
    for item_renewers in m.renewers:
        _write_described_delegation_token_renewer(put, item_renewers, version)
    if flex:
        put(b"\0")


class DescribeDelegationTokenResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: int = 0


def _read_describe_delegation_token_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeDelegationTokenResponse, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    tokens: list[DescribedDelegationToken] = []
    for _ in range(_count):
        _tokens_item, pos = _read_described_delegation_token(buf, pos, version)
        tokens.append(_tokens_item)
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeDelegationTokenResponse(error_code, tokens, throttle_time_ms), pos


def _write_describe_delegation_token_response(put: Put, m: DescribeDelegationTokenResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put(uvarint(len(m.tokens) + 1) if flex else length(len(m.tokens)))
    for item_tokens in m.tokens:
        _write_described_delegation_token(put, item_tokens, version)
    put(_fmt_i.pack(m.throttle_time_ms))
    if flex:
        put(b"\0")


decode_request = _read_describe_delegation_token_request
encode_request = _write_describe_delegation_token_request
decode_response = _read_describe_delegation_token_response
encode_response = _write_describe_delegation_token_response
