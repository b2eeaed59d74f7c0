"""BrokerRegistration: generated from protocol/schemas/broker_registration.schema by protocol.codegen; do not edit."""

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

_fmt_U_ = _Struct(">16s")
_fmt_B_ = _Struct(">?")
_fmt_Hh = _Struct(">Hh")
_fmt_hh = _Struct(">hh")
_fmt_i = _Struct(">i")
_fmt_ihq = _Struct(">ihq")
_fmt_q = _Struct(">q")

API_KEY = 62

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


class BrokerRegistrationRequest(msgspec.Struct, gc=False):
    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: bytes = NO_UUID
    listeners: list[Listener] = []
    features: list[Feature] = []
    rack: str | None = ""
    is_migrating_zk_broker: bool = False
    log_dirs: list[bytes] = []
    previous_broker_epoch: int = -1


def _read_broker_registration_request(buf: Buffer, pos: int, version: int) -> tuple[BrokerRegistrationRequest, int]:
    (broker_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    cluster_id, pos = read_compact_string(buf, pos)
    (incarnation_id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
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
    rack, pos = read_compact_nullable_string(buf, pos)
    is_migrating_zk_broker: bool = False
    if version >= 1:
        (is_migrating_zk_broker,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    log_dirs: list[bytes] = []
    if version >= 2:
        _count, pos = read_compact_length(buf, pos)
        log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
        pos += 16 * _count
    previous_broker_epoch: int = -1
    if version >= 3:
        (previous_broker_epoch,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return BrokerRegistrationRequest(broker_id, cluster_id, incarnation_id, listeners, features, rack, is_migrating_zk_broker, log_dirs, previous_broker_epoch), pos


def _write_broker_registration_request(put: Put, m: BrokerRegistrationRequest, version: int) -> None:
    put(_fmt_i.pack(m.broker_id))
    put(compact_string(m.cluster_id))
    put(_fmt_U_.pack(m.incarnation_id))
    put(uvarint(len(m.listeners) + 1))
    for item_listeners in m.listeners:
        _write_listener(put, item_listeners, version)
    put(uvarint(len(m.features) + 1))
    for item_features in m.features:
        _write_feature(put, item_features, version)
    put(compact_string(m.rack))
    if version >= 1:
        put(_fmt_B_.pack(m.is_migrating_zk_broker))
    if version >= 2:
        put(uvarint(len(m.log_dirs) + 1))
        for item_log_dirs in m.log_dirs:
            put(item_log_dirs)
    if version >= 3:
        put(_fmt_q.pack(m.previous_broker_epoch))
    put(b"\0")


class BrokerRegistrationResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1


def _read_broker_registration_response(buf: Buffer, pos: int, version: int) -> tuple[BrokerRegistrationResponse, int]:
    throttle_time_ms, error_code, broker_epoch = _fmt_ihq.unpack_from(buf, pos)
    pos += 14
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return BrokerRegistrationResponse(throttle_time_ms, error_code, broker_epoch), pos


def _write_broker_registration_response(put: Put, m: BrokerRegistrationResponse, version: int) -> None:
    put(_fmt_ihq.pack(m.throttle_time_ms, m.error_code, m.broker_epoch))
    put(b"\0")


decode_request = _read_broker_registration_request
encode_request = _write_broker_registration_request
decode_response = _read_broker_registration_response
encode_response = _write_broker_registration_response
