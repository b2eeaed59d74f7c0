"""SaslHandshake: generated from protocol/schemas/sasl_handshake.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    length,
    read_length,
    read_string,
    string,
)

_fmt_h = _Struct(">h")

API_KEY = 17

class SaslHandshakeRequest(msgspec.Struct, gc=False):
    mechanism: str = ""


def _read_sasl_handshake_request(buf: Buffer, pos: int, version: int) -> tuple[SaslHandshakeRequest, int]:
    mechanism, pos = read_string(buf, pos)
    return SaslHandshakeRequest(mechanism), pos


def _write_sasl_handshake_request(put: Put, m: SaslHandshakeRequest, version: int) -> None:
    put(string(m.mechanism))


class SaslHandshakeResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    mechanisms: list[str] = []


def _read_sasl_handshake_response(buf: Buffer, pos: int, version: int) -> tuple[SaslHandshakeResponse, int]:
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    _count, pos = read_length(buf, pos)
    mechanisms: list[str] = []
    for _ in range(_count):
        _mechanisms_item, pos = read_string(buf, pos)
        mechanisms.append(_mechanisms_item)
    return SaslHandshakeResponse(error_code, mechanisms), pos


def _write_sasl_handshake_response(put: Put, m: SaslHandshakeResponse, version: int) -> None:
    put(_fmt_h.pack(m.error_code))
    put(length(len(m.mechanisms)))
    for item_mechanisms in m.mechanisms:
        put(string(item_mechanisms))


decode_request = _read_sasl_handshake_request
encode_request = _write_sasl_handshake_request
decode_response = _read_sasl_handshake_response
encode_response = _write_sasl_handshake_response
