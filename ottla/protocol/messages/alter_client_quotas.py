"""AlterClientQuotas: generated from protocol/schemas/alter_client_quotas.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_dB_ = _Struct(">d?")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 49

class EntityData(msgspec.Struct, gc=False):
    entity_type: str = ""
    entity_name: str | None = ""


def _read_entity_data(buf: Buffer, pos: int, version: int) -> tuple[EntityData, int]:
    flex = version >= 1
    entity_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    entity_name, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EntityData(entity_type, entity_name), pos


def _write_entity_data(put: Put, m: EntityData, version: int) -> None:
    flex = version >= 1
    put((compact_string if flex else string)(m.entity_type))
    put((compact_string if flex else string)(m.entity_name))
    if flex:
        put(b"\0")


class OpData(msgspec.Struct, gc=False):
    key: str = ""
    value: float = 0.0
    remove: bool = False


def _read_op_data(buf: Buffer, pos: int, version: int) -> tuple[OpData, int]:
    flex = version >= 1
    key, pos = (read_compact_string if flex else read_string)(buf, pos)
    value, remove = _fmt_dB_.unpack_from(buf, pos)
    pos += 9
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return OpData(key, value, remove), pos


def _write_op_data(put: Put, m: OpData, version: int) -> None:
    flex = version >= 1
    put((compact_string if flex else string)(m.key))
    put(_fmt_dB_.pack(m.value, m.remove))
    if flex:
        put(b"\0")


class EntryData(msgspec.Struct, gc=False):
    entity: list[EntityData] = []
    ops: list[OpData] = []


def _read_entry_data(buf: Buffer, pos: int, version: int) -> tuple[EntryData, int]:
    flex = version >= 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    entity: list[EntityData] = []
    for _ in range(_count):
        _entity_item, pos = _read_entity_data(buf, pos, version)
        entity.append(_entity_item)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    ops: list[OpData] = []
    for _ in range(_count):
        _ops_item, pos = _read_op_data(buf, pos, version)
        ops.append(_ops_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EntryData(entity, ops), pos


def _write_entry_data(put: Put, m: EntryData, version: int) -> None:
    flex = version >= 1
    put(uvarint(len(m.entity) + 1) if flex else length(len(m.entity)))
    for item_entity in m.entity:
        _write_entity_data(put, item_entity, version)
    put(uvarint(len(m.ops) + 1) if flex else length(len(m.ops)))
    for item_ops in m.ops:
        _write_op_data(put, item_ops, version)
    if flex:
        put(b"\0")


class AlterClientQuotasRequest(msgspec.Struct, gc=False):
    entries: list[EntryData] = []
    validate_only: bool = False


def _read_alter_client_quotas_request(buf: Buffer, pos: int, version: int) -> tuple[AlterClientQuotasRequest, int]:
    flex = version >= 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    entries: list[EntryData] = []
    for _ in range(_count):
        _entries_item, pos = _read_entry_data(buf, pos, version)
        entries.append(_entries_item)
    (validate_only,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterClientQuotasRequest(entries, validate_only), pos


def _write_alter_client_quotas_request(put: Put, m: AlterClientQuotasRequest, version: int) -> None:
    flex = version >= 1
    put(uvarint(len(m.entries) + 1) if flex else length(len(m.entries)))
    for item_entries in m.entries:
        _write_entry_data(put, item_entries, version)
    put(_fmt_B_.pack(m.validate_only))
    if flex:
        put(b"\0")


class ResponseEntryData(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    entity: list[EntityData] = []


def _read_response_entry_data(buf: Buffer, pos: int, version: int) -> tuple[ResponseEntryData, int]:
    flex = version >= 1
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    entity: list[EntityData] = []
    for _ in range(_count):
        _entity_item, pos = _read_entity_data(buf, pos, version)
        entity.append(_entity_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ResponseEntryData(error_code, error_message, entity), pos


def _write_response_entry_data(put: Put, m: ResponseEntryData, version: int) -> None:
    flex = version >= 1
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put(uvarint(len(m.entity) + 1) if flex else length(len(m.entity)))
    for item_entity in m.entity:
        _write_entity_data(put, item_entity, version)
    if flex:
        put(b"\0")


class AlterClientQuotasResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    entries: list[ResponseEntryData] = []


def _read_alter_client_quotas_response(buf: Buffer, pos: int, version: int) -> tuple[AlterClientQuotasResponse, int]:
    flex = version >= 1
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    entries: list[ResponseEntryData] = []
    for _ in range(_count):
        _entries_item, pos = _read_response_entry_data(buf, pos, version)
        entries.append(_entries_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterClientQuotasResponse(throttle_time_ms, entries), pos


def _write_alter_client_quotas_response(put: Put, m: AlterClientQuotasResponse, version: int) -> None:
    flex = version >= 1
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.entries) + 1) if flex else length(len(m.entries)))
    for item_entries in m.entries:
        _write_response_entry_data(put, item_entries, version)
    if flex:
        put(b"\0")


decode_request = _read_alter_client_quotas_request
encode_request = _write_alter_client_quotas_request
decode_response = _read_alter_client_quotas_response
encode_response = _write_alter_client_quotas_response
