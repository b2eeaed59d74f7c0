"""ControllerRegistration: generated from protocol/schemas/controller_registration.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_Hh = _Struct(">Hh")
_fmt_hh = _Struct(">hh")
_fmt_iU_B_ = _Struct(">i16s?")
_fmt_ih = _Struct(">ih")

API_KEY = 70

class Listener(msgspec.Struct, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


def _read_listener(buf: Buffer, pos: int, version: int) -> tuple[Listener, int]:
    name, pos = read_compact_string(buf, pos)
    host, pos = read_compact_string(buf, pos)
    port, security_protocol = _fmt_Hh.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Listener(name, host, port, security_protocol), pos


def _write_listener(put: Put, m: Listener, version: int) -> None:
    put(compact_string(m.name))
    put(compact_string(m.host))
    put(_fmt_Hh.pack(m.port, m.security_protocol))
    put(b"\0")


class Feature(msgspec.Struct, gc=False):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


def _read_feature(buf: Buffer, pos: int, version: int) -> tuple[Feature, int]:
    name, pos = read_compact_string(buf, pos)
    min_supported_version, max_supported_version = _fmt_hh.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Feature(name, min_supported_version, max_supported_version), pos


def _write_feature(put: Put, m: Feature, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_hh.pack(m.min_supported_version, m.max_supported_version))
    put(b"\0")


class ControllerRegistrationRequest(msgspec.Struct, gc=False):
    controller_id: int = 0
    incarnation_id: bytes = NO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = []
    features: list[Feature] = []


def _read_controller_registration_request(buf: Buffer, pos: int, version: int) -> tuple[ControllerRegistrationRequest, int]:
    controller_id, incarnation_id, zk_migration_ready = _fmt_iU_B_.unpack_from(buf, pos)
    pos += 21
    _count, pos = read_compact_length(buf, pos)
    listeners: list[Listener] = []
    for _ in range(_count):
        _listeners_item, pos = _read_listener(buf, pos, version)
        listeners.append(_listeners_item)
    _count, pos = read_compact_length(buf, pos)
    features: list[Feature] = []
    for _ in range(_count):
        _features_item, pos = _read_feature(buf, pos, version)
        features.append(_features_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ControllerRegistrationRequest(controller_id, incarnation_id, zk_migration_ready, listeners, features), pos


def _write_controller_registration_request(put: Put, m: ControllerRegistrationRequest, version: int) -> None:
    put(_fmt_iU_B_.pack(m.controller_id, m.incarnation_id, m.zk_migration_ready))
    put(uvarint(len(m.listeners) + 1))
    for item_listeners in m.listeners:
        _write_listener(put, item_listeners, version)
    put(uvarint(len(m.features) + 1))
    for item_features in m.features:
        _write_feature(put, item_features, version)
    put(b"\0")


class ControllerRegistrationResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_controller_registration_response(buf: Buffer, pos: int, version: int) -> tuple[ControllerRegistrationResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ControllerRegistrationResponse(throttle_time_ms, error_code, error_message), pos


def _write_controller_registration_response(put: Put, m: ControllerRegistrationResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


decode_request = _read_controller_registration_request
encode_request = _write_controller_registration_request
decode_response = _read_controller_registration_response
encode_response = _write_controller_registration_response
