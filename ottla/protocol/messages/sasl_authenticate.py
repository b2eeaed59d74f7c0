"""SaslAuthenticate: generated from protocol/schemas/sasl_authenticate.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    bytes_length,
    compact_bytes_length,
    compact_string,
    read_bytes,
    read_compact_bytes,
    read_compact_nullable_string,
    read_nullable_string,
    skip_tags,
    string,
)

_fmt_h = _Struct(">h")
_fmt_q = _Struct(">q")

API_KEY = 36

class SaslAuthenticateRequest(msgspec.Struct, gc=False):
    auth_bytes: bytes = b""


def _read_sasl_authenticate_request(buf: Buffer, pos: int, version: int) -> tuple[SaslAuthenticateRequest, int]:
    flex = version >= 2
    auth_bytes, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SaslAuthenticateRequest(auth_bytes), pos


def _write_sasl_authenticate_request(put: Put, m: SaslAuthenticateRequest, version: int) -> None:
    flex = version >= 2
    put((compact_bytes_length if flex else bytes_length)(m.auth_bytes))
    put(m.auth_bytes)
    if flex:
        put(b"\0")


class SaslAuthenticateResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


def _read_sasl_authenticate_response(buf: Buffer, pos: int, version: int) -> tuple[SaslAuthenticateResponse, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    auth_bytes, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    session_lifetime_ms: int = 0
    if version >= 1:
        (session_lifetime_ms,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SaslAuthenticateResponse(error_code, error_message, auth_bytes, session_lifetime_ms), pos


def _write_sasl_authenticate_response(put: Put, m: SaslAuthenticateResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put((compact_bytes_length if flex else bytes_length)(m.auth_bytes))
    put(m.auth_bytes)
    if version >= 1:
        put(_fmt_q.pack(m.session_lifetime_ms))
    if flex:
        put(b"\0")


decode_request = _read_sasl_authenticate_request
encode_request = _write_sasl_authenticate_request
decode_response = _read_sasl_authenticate_response
encode_response = _write_sasl_authenticate_response
