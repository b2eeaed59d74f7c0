"""ClientQuotaRecord: generated from protocol/schemas/client_quota_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_dB_ = _Struct(">d?")

RECORD_TYPE = 14
MIN_VERSION = 0
MAX_VERSION = 0

class EntityData(msgspec.Struct, gc=False):
    entity_type: str = ""
    entity_name: str | None = ""


def _read_entity_data(buf: Buffer, pos: int, version: int) -> tuple[EntityData, int]:
    entity_type, pos = read_compact_string(buf, pos)
    entity_name, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return EntityData(entity_type, entity_name), pos


def _write_entity_data(put: Put, m: EntityData, version: int) -> None:
    put(compact_string(m.entity_type))
    put(compact_string(m.entity_name))
    put(b"\0")


class ClientQuotaRecord(msgspec.Struct, gc=False):
    entity: list[EntityData] = []
    key: str = ""
    value: float = 0.0
    remove: bool = False


def _read_client_quota_record(buf: Buffer, pos: int, version: int) -> tuple[ClientQuotaRecord, int]:
    _count, pos = read_compact_length(buf, pos)
    entity: list[EntityData] = []
    for _ in range(_count):
        _entity_item, pos = _read_entity_data(buf, pos, version)
        entity.append(_entity_item)
    key, pos = read_compact_string(buf, pos)
    value, remove = _fmt_dB_.unpack_from(buf, pos)
    pos += 9
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ClientQuotaRecord(entity, key, value, remove), pos


def _write_client_quota_record(put: Put, m: ClientQuotaRecord, version: int) -> None:
    put(uvarint(len(m.entity) + 1))
    for item_entity in m.entity:
        _write_entity_data(put, item_entity, version)
    put(compact_string(m.key))
    put(_fmt_dB_.pack(m.value, m.remove))
    put(b"\0")


decode = _read_client_quota_record
encode = _write_client_quota_record
