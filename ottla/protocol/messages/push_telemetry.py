"""PushTelemetry: generated from protocol/schemas/push_telemetry.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_bytes_length,
    read_compact_bytes,
    skip_tags,
)

_fmt_U_iB_b = _Struct(">16si?b")
_fmt_ih = _Struct(">ih")

API_KEY = 72

class PushTelemetryRequest(msgspec.Struct, gc=False):
    client_instance_id: bytes = NO_UUID
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""


def _read_push_telemetry_request(buf: Buffer, pos: int, version: int) -> tuple[PushTelemetryRequest, int]:
    client_instance_id, subscription_id, terminating, compression_type = _fmt_U_iB_b.unpack_from(buf, pos)
    pos += 22
    metrics, pos = read_compact_bytes(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PushTelemetryRequest(client_instance_id, subscription_id, terminating, compression_type, metrics), pos


def _write_push_telemetry_request(put: Put, m: PushTelemetryRequest, version: int) -> None:
    put(_fmt_U_iB_b.pack(m.client_instance_id, m.subscription_id, m.terminating, m.compression_type))
    put(compact_bytes_length(m.metrics))
    put(m.metrics)
    put(b"\0")


class PushTelemetryResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0


def _read_push_telemetry_response(buf: Buffer, pos: int, version: int) -> tuple[PushTelemetryResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return PushTelemetryResponse(throttle_time_ms, error_code), pos


def _write_push_telemetry_response(put: Put, m: PushTelemetryResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(b"\0")


decode_request = _read_push_telemetry_request
encode_request = _write_push_telemetry_request
decode_response = _read_push_telemetry_response
encode_response = _write_push_telemetry_response
