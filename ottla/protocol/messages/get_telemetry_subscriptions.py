"""GetTelemetrySubscriptions: generated from protocol/schemas/get_telemetry_subscriptions.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_ihU_i = _Struct(">ih16si")
_fmt_iiB_ = _Struct(">ii?")

API_KEY = 71

class GetTelemetrySubscriptionsRequest(msgspec.Struct, gc=False):
    client_instance_id: bytes = NO_UUID


def _read_get_telemetry_subscriptions_request(buf: Buffer, pos: int, version: int) -> tuple[GetTelemetrySubscriptionsRequest, int]:
    (client_instance_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return GetTelemetrySubscriptionsRequest(client_instance_id), pos


def _write_get_telemetry_subscriptions_request(put: Put, m: GetTelemetrySubscriptionsRequest, version: int) -> None:
    put(_fmt_U_.pack(m.client_instance_id))
    put(b"\0")


class GetTelemetrySubscriptionsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: bytes = NO_UUID
    subscription_id: int = 0
    accepted_compression_types: list[int] = []
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = []


def _read_get_telemetry_subscriptions_response(buf: Buffer, pos: int, version: int) -> tuple[GetTelemetrySubscriptionsResponse, int]:
    throttle_time_ms, error_code, client_instance_id, subscription_id = _fmt_ihU_i.unpack_from(buf, pos)
    pos += 26
    _count, pos = read_compact_length(buf, pos)
    accepted_compression_types: list[int] = list(unpack_from(f">{_count}b", buf, pos))
    pos += 1 * _count
    push_interval_ms, telemetry_max_bytes, delta_temporality = _fmt_iiB_.unpack_from(buf, pos)
    pos += 9
    _count, pos = read_compact_length(buf, pos)
    requested_metrics: list[str] = []
    for _ in range(_count):
        _requested_metrics_item, pos = read_compact_string(buf, pos)
        requested_metrics.append(_requested_metrics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return GetTelemetrySubscriptionsResponse(throttle_time_ms, error_code, client_instance_id, subscription_id, accepted_compression_types, push_interval_ms, telemetry_max_bytes, delta_temporality, requested_metrics), pos


def _write_get_telemetry_subscriptions_response(put: Put, m: GetTelemetrySubscriptionsResponse, version: int) -> None:
    put(_fmt_ihU_i.pack(m.throttle_time_ms, m.error_code, m.client_instance_id, m.subscription_id))
    put(uvarint(len(m.accepted_compression_types) + 1))
    put(pack(f">{len(m.accepted_compression_types)}b", *m.accepted_compression_types))
    put(_fmt_iiB_.pack(m.push_interval_ms, m.telemetry_max_bytes, m.delta_temporality))
    put(uvarint(len(m.requested_metrics) + 1))
    for item_requested_metrics in m.requested_metrics:
        put(compact_string(item_requested_metrics))
    put(b"\0")


decode_request = _read_get_telemetry_subscriptions_request
encode_request = _write_get_telemetry_subscriptions_request
decode_response = _read_get_telemetry_subscriptions_response
encode_response = _write_get_telemetry_subscriptions_response
