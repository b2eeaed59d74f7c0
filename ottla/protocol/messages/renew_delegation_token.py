"""RenewDelegationToken: generated from protocol/schemas/renew_delegation_token.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    bytes_length,
    compact_bytes_length,
    read_bytes,
    read_compact_bytes,
    skip_tags,
)

_fmt_hqi = _Struct(">hqi")
_fmt_q = _Struct(">q")

API_KEY = 39

class RenewDelegationTokenRequest(msgspec.Struct, gc=False):
    hmac: bytes = b""
    renew_period_ms: int = 0


def _read_renew_delegation_token_request(buf: Buffer, pos: int, version: int) -> tuple[RenewDelegationTokenRequest, int]:
    flex = version >= 2
    hmac, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    (renew_period_ms,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return RenewDelegationTokenRequest(hmac, renew_period_ms), pos


def _write_renew_delegation_token_request(put: Put, m: RenewDelegationTokenRequest, version: int) -> None:
    flex = version >= 2
    put((compact_bytes_length if flex else bytes_length)(m.hmac))
    put(m.hmac)
    put(_fmt_q.pack(m.renew_period_ms))
    if flex:
        put(b"\0")


class RenewDelegationTokenResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


def _read_renew_delegation_token_response(buf: Buffer, pos: int, version: int) -> tuple[RenewDelegationTokenResponse, int]:
    flex = version >= 2
    error_code, expiry_timestamp_ms, throttle_time_ms = _fmt_hqi.unpack_from(buf, pos)
    pos += 14
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return RenewDelegationTokenResponse(error_code, expiry_timestamp_ms, throttle_time_ms), pos


def _write_renew_delegation_token_response(put: Put, m: RenewDelegationTokenResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_hqi.pack(m.error_code, m.expiry_timestamp_ms, m.throttle_time_ms))
    if flex:
        put(b"\0")


decode_request = _read_renew_delegation_token_request
encode_request = _write_renew_delegation_token_request
decode_response = _read_renew_delegation_token_response
encode_response = _write_renew_delegation_token_response
