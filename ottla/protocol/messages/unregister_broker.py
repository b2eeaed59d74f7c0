"""UnregisterBroker: generated from protocol/schemas/unregister_broker.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_nullable_string,
    skip_tags,
)

_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 64

class UnregisterBrokerRequest(msgspec.Struct, gc=False):
    broker_id: int = 0


def _read_unregister_broker_request(buf: Buffer, pos: int, version: int) -> tuple[UnregisterBrokerRequest, int]:
    (broker_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UnregisterBrokerRequest(broker_id), pos


def _write_unregister_broker_request(put: Put, m: UnregisterBrokerRequest, version: int) -> None:
    put(_fmt_i.pack(m.broker_id))
    put(b"\0")


class UnregisterBrokerResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_unregister_broker_response(buf: Buffer, pos: int, version: int) -> tuple[UnregisterBrokerResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UnregisterBrokerResponse(throttle_time_ms, error_code, error_message), pos


def _write_unregister_broker_response(put: Put, m: UnregisterBrokerResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


decode_request = _read_unregister_broker_request
encode_request = _write_unregister_broker_request
decode_response = _read_unregister_broker_response
encode_response = _write_unregister_broker_response
