"""DescribeClientQuotas: generated from protocol/schemas/describe_client_quotas.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_length,
    read_nullable_string,
    read_string,
    skip_tags,
    string,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_b = _Struct(">b")
_fmt_d = _Struct(">d")
_fmt_ih = _Struct(">ih")

API_KEY = 48

class ComponentData(msgspec.Struct, gc=False):
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


def _read_component_data(buf: Buffer, pos: int, version: int) -> tuple[ComponentData, int]:
    flex = version >= 1
    entity_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    (match_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    match, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ComponentData(entity_type, match_type, match), pos


def _write_component_data(put: Put, m: ComponentData, version: int) -> None:
    flex = version >= 1
    put((compact_string if flex else string)(m.entity_type))
    put(_fmt_b.pack(m.match_type))
    put((compact_string if flex else string)(m.match))
    if flex:
        put(b"\0")


class DescribeClientQuotasRequest(msgspec.Struct, gc=False):
    components: list[ComponentData] = []
    strict: bool = False


def _read_describe_client_quotas_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeClientQuotasRequest, int]:
    flex = version >= 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    components: list[ComponentData] = []
    for _ in range(_count):
        _components_item, pos = _read_component_data(buf, pos, version)
        components.append(_components_item)
    (strict,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeClientQuotasRequest(components, strict), pos


def _write_describe_client_quotas_request(put: Put, m: DescribeClientQuotasRequest, version: int) -> None:
    flex = version >= 1
    put(uvarint(len(m.components) + 1) if flex else length(len(m.components)))
    for item_components in m.components:
        _write_component_data(put, item_components, version)
    put(_fmt_B_.pack(m.strict))
    if flex:
        put(b"\0")


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


class ValueData(msgspec.Struct, gc=False):
    key: str = ""
    value: float = 0.0


def _read_value_data(buf: Buffer, pos: int, version: int) -> tuple[ValueData, int]:
    flex = version >= 1
    key, pos = (read_compact_string if flex else read_string)(buf, pos)
    (value,) = _fmt_d.unpack_from(buf, pos)
    pos += 8
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ValueData(key, value), pos


def _write_value_data(put: Put, m: ValueData, version: int) -> None:
    flex = version >= 1
    put((compact_string if flex else string)(m.key))
    put(_fmt_d.pack(m.value))
    if flex:
        put(b"\0")


class EntryData(msgspec.Struct, gc=False):
    entity: list[EntityData] = []
    values: list[ValueData] = []


def _read_entry_data(buf: Buffer, pos: int, version: int) -> tuple[EntryData, int]:
    flex = version >= 1
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    entity: list[EntityData] = []
    for _ in range(_count):
        _entity_item, pos = _read_entity_data(buf, pos, version)
        entity.append(_entity_item)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    values: list[ValueData] = []
    for _ in range(_count):
        _values_item, pos = _read_value_data(buf, pos, version)
        values.append(_values_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EntryData(entity, values), pos


def _write_entry_data(put: Put, m: EntryData, version: int) -> None:
    flex = version >= 1
    put(uvarint(len(m.entity) + 1) if flex else length(len(m.entity)))
    for item_entity in m.entity:
        _write_entity_data(put, item_entity, version)
    put(uvarint(len(m.values) + 1) if flex else length(len(m.values)))
    for item_values in m.values:
        _write_value_data(put, item_values, version)
    if flex:
        put(b"\0")


class DescribeClientQuotasResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []


def _read_describe_client_quotas_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeClientQuotasResponse, int]:
    flex = version >= 1
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    entries: list[EntryData] | None = None
    if _count >= 0:
        entries = []
        for _ in range(_count):
            _entries_item, pos = _read_entry_data(buf, pos, version)
            entries.append(_entries_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeClientQuotasResponse(throttle_time_ms, error_code, error_message, entries), pos


def _write_describe_client_quotas_response(put: Put, m: DescribeClientQuotasResponse, version: int) -> None:
    flex = version >= 1
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put((compact_string if flex else string)(m.error_message))
    if m.entries is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.entries) + 1) if flex else length(len(m.entries)))
        for item_entries in m.entries:
            _write_entry_data(put, item_entries, version)
    if flex:
        put(b"\0")


decode_request = _read_describe_client_quotas_request
encode_request = _write_describe_client_quotas_request
decode_response = _read_describe_client_quotas_response
encode_response = _write_describe_client_quotas_response
