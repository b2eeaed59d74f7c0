"""RegisterControllerRecord: generated from protocol/schemas/register_controller_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

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

_fmt_Hh = _Struct(">Hh")
_fmt_hh = _Struct(">hh")
_fmt_iU_B_ = _Struct(">i16s?")

RECORD_TYPE = 27
MIN_VERSION = 0
MAX_VERSION = 0

class ControllerEndpoint(msgspec.Struct, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


def _read_controller_endpoint(buf: Buffer, pos: int, version: int) -> tuple[ControllerEndpoint, int]:
    name, pos = read_compact_string(buf, pos)
    host, pos = read_compact_string(buf, pos)
    port, security_protocol = _fmt_Hh.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ControllerEndpoint(name, host, port, security_protocol), pos


def _write_controller_endpoint(put: Put, m: ControllerEndpoint, version: int) -> None:
    put(compact_string(m.name))
    put(compact_string(m.host))
    put(_fmt_Hh.pack(m.port, m.security_protocol))
    put(b"\0")


class ControllerFeature(msgspec.Struct, gc=False):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


def _read_controller_feature(buf: Buffer, pos: int, version: int) -> tuple[ControllerFeature, int]:
    name, pos = read_compact_string(buf, pos)
    min_supported_version, max_supported_version = _fmt_hh.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ControllerFeature(name, min_supported_version, max_supported_version), pos


def _write_controller_feature(put: Put, m: ControllerFeature, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_hh.pack(m.min_supported_version, m.max_supported_version))
    put(b"\0")


class RegisterControllerRecord(msgspec.Struct, gc=False):
    controller_id: int = 0
    incarnation_id: bytes = NO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = []
    features: list[ControllerFeature] = []


def _read_register_controller_record(buf: Buffer, pos: int, version: int) -> tuple[RegisterControllerRecord, int]:
    controller_id, incarnation_id, zk_migration_ready = _fmt_iU_B_.unpack_from(buf, pos)
    pos += 21
    _count, pos = read_compact_length(buf, pos)
    end_points: list[ControllerEndpoint] = []
    for _ in range(_count):
        _end_points_item, pos = _read_controller_endpoint(buf, pos, version)
        end_points.append(_end_points_item)
    _count, pos = read_compact_length(buf, pos)
    features: list[ControllerFeature] = []
    for _ in range(_count):
        _features_item, pos = _read_controller_feature(buf, pos, version)
        features.append(_features_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RegisterControllerRecord(controller_id, incarnation_id, zk_migration_ready, end_points, features), pos


def _write_register_controller_record(put: Put, m: RegisterControllerRecord, version: int) -> None:
    put(_fmt_iU_B_.pack(m.controller_id, m.incarnation_id, m.zk_migration_ready))
    put(uvarint(len(m.end_points) + 1))
    for item_end_points in m.end_points:
        _write_controller_endpoint(put, item_end_points, version)
    put(uvarint(len(m.features) + 1))
    for item_features in m.features:
        _write_controller_feature(put, item_features, version)
    put(b"\0")


decode = _read_register_controller_record
encode = _write_register_controller_record
