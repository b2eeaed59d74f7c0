"""Envelope: generated from protocol/schemas/envelope.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_bytes_length,
    read_compact_bytes,
    read_compact_nullable_bytes,
    skip_tags,
)

_fmt_h = _Struct(">h")

API_KEY = 58

class EnvelopeRequest(msgspec.Struct, gc=False):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


def _read_envelope_request(buf: Buffer, pos: int, version: int) -> tuple[EnvelopeRequest, int]:
    request_data, pos = read_compact_bytes(buf, pos)
    request_principal, pos = read_compact_nullable_bytes(buf, pos)
    client_host_address, pos = read_compact_bytes(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return EnvelopeRequest(request_data, request_principal, client_host_address), pos


def _write_envelope_request(put: Put, m: EnvelopeRequest, version: int) -> None:
    put(compact_bytes_length(m.request_data))
    put(m.request_data)
    put(compact_bytes_length(m.request_principal))
    if m.request_principal is not None:
        put(m.request_principal)
    put(compact_bytes_length(m.client_host_address))
    put(m.client_host_address)
    put(b"\0")


class EnvelopeResponse(msgspec.Struct, gc=False):
    response_data: bytes | None = None
    error_code: int = 0


def _read_envelope_response(buf: Buffer, pos: int, version: int) -> tuple[EnvelopeResponse, int]:
    response_data, pos = read_compact_nullable_bytes(buf, pos)
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return EnvelopeResponse(response_data, error_code), pos


def _write_envelope_response(put: Put, m: EnvelopeResponse, version: int) -> None:
    put(compact_bytes_length(m.response_data))
    if m.response_data is not None:
        put(m.response_data)
    put(_fmt_h.pack(m.error_code))
    put(b"\0")


decode_request = _read_envelope_request
encode_request = _write_envelope_request
decode_response = _read_envelope_response
encode_response = _write_envelope_response
