"""RegisterBrokerRecord: generated from protocol/schemas/register_broker_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_U_q = _Struct(">16sq")
_fmt_B_ = _Struct(">?")
_fmt_Hh = _Struct(">Hh")
_fmt_hh = _Struct(">hh")
_fmt_i = _Struct(">i")

RECORD_TYPE = 0
MIN_VERSION = 0
MAX_VERSION = 4

class BrokerEndpoint(msgspec.Struct, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


def _read_broker_endpoint(buf: Buffer, pos: int, version: int) -> tuple[BrokerEndpoint, int]:
    name, pos = read_compact_string(buf, pos)
    host, pos = read_compact_string(buf, pos)
    port, security_protocol = _fmt_Hh.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return BrokerEndpoint(name, host, port, security_protocol), pos


def _write_broker_endpoint(put: Put, m: BrokerEndpoint, version: int) -> None:
    put(compact_string(m.name))
    put(compact_string(m.host))
    put(_fmt_Hh.pack(m.port, m.security_protocol))
    put(b"\0")


class BrokerFeature(msgspec.Struct, gc=False):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


def _read_broker_feature(buf: Buffer, pos: int, version: int) -> tuple[BrokerFeature, int]:
    name, pos = read_compact_string(buf, pos)
    min_supported_version, max_supported_version = _fmt_hh.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return BrokerFeature(name, min_supported_version, max_supported_version), pos


def _write_broker_feature(put: Put, m: BrokerFeature, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_hh.pack(m.min_supported_version, m.max_supported_version))
    put(b"\0")


class RegisterBrokerRecord(msgspec.Struct, gc=False):
    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: bytes = NO_UUID
    broker_epoch: int = 0
    end_points: list[BrokerEndpoint] = []
    features: list[BrokerFeature] = []
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[bytes] = []
    cordoned_log_dirs: list[bytes] | None = None


def _read_register_broker_record(buf: Buffer, pos: int, version: int) -> tuple[RegisterBrokerRecord, int]:
    (broker_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    is_migrating_zk_broker: bool = False
    if version >= 2:
        (is_migrating_zk_broker,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    incarnation_id, broker_epoch = _fmt_U_q.unpack_from(buf, pos)
    pos += 24
    _count, pos = read_compact_length(buf, pos)
    end_points: list[BrokerEndpoint] = []
    for _ in range(_count):
        _end_points_item, pos = _read_broker_endpoint(buf, pos, version)
        end_points.append(_end_points_item)
    _count, pos = read_compact_length(buf, pos)
    features: list[BrokerFeature] = []
    for _ in range(_count):
        _features_item, pos = _read_broker_feature(buf, pos, version)
        features.append(_features_item)
    rack, pos = read_compact_nullable_string(buf, pos)
    (fenced,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    in_controlled_shutdown: bool = False
    if version >= 1:
        (in_controlled_shutdown,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    log_dirs: list[bytes] = []
    cordoned_log_dirs: list[bytes] | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            _count, pos = read_compact_length(buf, pos)
            log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
            pos += 16 * _count
        elif _tag == 1:
            _count, pos = read_compact_nullable_length(buf, pos)
            cordoned_log_dirs = None
            if _count >= 0:
                cordoned_log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
                pos += 16 * _count
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return RegisterBrokerRecord(broker_id, is_migrating_zk_broker, incarnation_id, broker_epoch, end_points, features, rack, fenced, in_controlled_shutdown, log_dirs, cordoned_log_dirs), pos


def _write_register_broker_record(put: Put, m: RegisterBrokerRecord, version: int) -> None:
    put(_fmt_i.pack(m.broker_id))
    if version >= 2:
        put(_fmt_B_.pack(m.is_migrating_zk_broker))
    put(_fmt_U_q.pack(m.incarnation_id, m.broker_epoch))
    put(uvarint(len(m.end_points) + 1))
    for item_end_points in m.end_points:
        _write_broker_endpoint(put, item_end_points, version)
    put(uvarint(len(m.features) + 1))
    for item_features in m.features:
        _write_broker_feature(put, item_features, version)
    put(compact_string(m.rack))
    put(_fmt_B_.pack(m.fenced))
    if version >= 1:
        put(_fmt_B_.pack(m.in_controlled_shutdown))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if version >= 3 and m.log_dirs:
        _parts = []
        _parts.append(uvarint(len(m.log_dirs) + 1))
        for item_log_dirs in m.log_dirs:
            _parts.append(item_log_dirs)
        _tags.append(tagged_field(0, _parts))
    if version >= 4 and m.cordoned_log_dirs is not None:
        _parts = []
        if m.cordoned_log_dirs is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.cordoned_log_dirs) + 1))
            for item_cordoned_log_dirs in m.cordoned_log_dirs:
                _parts.append(item_cordoned_log_dirs)
        _tags.append(tagged_field(1, _parts))
    put_tags(put, _tags)


decode = _read_register_broker_record
encode = _write_register_broker_record
