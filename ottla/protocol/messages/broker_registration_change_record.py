"""BrokerRegistrationChangeRecord: generated from protocol/schemas/broker_registration_change_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_tag,
    read_tag_count,
    tagged_field,
    uvarint,
)

_fmt_BBb = _Struct(">BBb")
_fmt_b = _Struct(">b")
_fmt_iq = _Struct(">iq")

RECORD_TYPE = 17
MIN_VERSION = 0
MAX_VERSION = 3

class BrokerRegistrationChangeRecord(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: list[bytes] = []
    cordoned_log_dirs: list[bytes] | None = None


def _read_broker_registration_change_record(buf: Buffer, pos: int, version: int) -> tuple[BrokerRegistrationChangeRecord, int]:
    broker_id, broker_epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: list[bytes] = []
    cordoned_log_dirs: list[bytes] | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (fenced,) = _fmt_b.unpack_from(buf, pos)
            pos += 1
        elif _tag == 1:
            (in_controlled_shutdown,) = _fmt_b.unpack_from(buf, pos)
            pos += 1
        elif _tag == 2:
            _count, pos = read_compact_length(buf, pos)
            log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
            pos += 16 * _count
        elif _tag == 3:
            _count, pos = read_compact_nullable_length(buf, pos)
            cordoned_log_dirs = None
            if _count >= 0:
                cordoned_log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
                pos += 16 * _count
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return BrokerRegistrationChangeRecord(broker_id, broker_epoch, fenced, in_controlled_shutdown, log_dirs, cordoned_log_dirs), pos


def _write_broker_registration_change_record(put: Put, m: BrokerRegistrationChangeRecord, version: int) -> None:
    put(_fmt_iq.pack(m.broker_id, m.broker_epoch))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.fenced != 0:
        _tags.append(_fmt_BBb.pack(0, 1, m.fenced))
    if version >= 1 and m.in_controlled_shutdown != 0:
        _tags.append(_fmt_BBb.pack(1, 1, m.in_controlled_shutdown))
    if version >= 2 and m.log_dirs:
        _parts = []
        _parts.append(uvarint(len(m.log_dirs) + 1))
        for item_log_dirs in m.log_dirs:
            _parts.append(item_log_dirs)
        _tags.append(tagged_field(2, _parts))
    if version >= 3 and m.cordoned_log_dirs is not None:
        _parts = []
        if m.cordoned_log_dirs is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.cordoned_log_dirs) + 1))
            for item_cordoned_log_dirs in m.cordoned_log_dirs:
                _parts.append(item_cordoned_log_dirs)
        _tags.append(tagged_field(3, _parts))
    put_tags(put, _tags)


decode = _read_broker_registration_change_record
encode = _write_broker_registration_change_record
