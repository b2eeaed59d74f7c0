"""AlterConfigs: generated from protocol/schemas/alter_configs.schema by protocol.codegen; do not edit."""

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
_fmt_b = _Struct(">b")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 33

class AlterableConfig(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = ""


def _read_alterable_config(buf: Buffer, pos: int, version: int) -> tuple[AlterableConfig, int]:
    flex = version >= 2
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    value, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterableConfig(name, value), pos


def _write_alterable_config(put: Put, m: AlterableConfig, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.name))
    put((compact_string if flex else string)(m.value))
    if flex:
        put(b"\0")


class AlterConfigsResource(msgspec.Struct, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


def _read_alter_configs_resource(buf: Buffer, pos: int, version: int) -> tuple[AlterConfigsResource, int]:
    flex = version >= 2
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    configs: list[AlterableConfig] = []
    for _ in range(_count):
        _configs_item, pos = _read_alterable_config(buf, pos, version)
        configs.append(_configs_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterConfigsResource(resource_type, resource_name, configs), pos


def _write_alter_configs_resource(put: Put, m: AlterConfigsResource, version: int) -> None:
    flex = version >= 2
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    put(uvarint(len(m.configs) + 1) if flex else length(len(m.configs)))
    for item_configs in m.configs:
        _write_alterable_config(put, item_configs, version)
    if flex:
        put(b"\0")


class AlterConfigsRequest(msgspec.Struct, gc=False):
    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


def _read_alter_configs_request(buf: Buffer, pos: int, version: int) -> tuple[AlterConfigsRequest, int]:
    flex = version >= 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    resources: list[AlterConfigsResource] = []
    for _ in range(_count):
        _resources_item, pos = _read_alter_configs_resource(buf, pos, version)
        resources.append(_resources_item)
    (validate_only,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterConfigsRequest(resources, validate_only), pos


def _write_alter_configs_request(put: Put, m: AlterConfigsRequest, version: int) -> None:
    flex = version >= 2
    put(uvarint(len(m.resources) + 1) if flex else length(len(m.resources)))
    for item_resources in m.resources:
        _write_alter_configs_resource(put, item_resources, version)
    put(_fmt_B_.pack(m.validate_only))
    if flex:
        put(b"\0")


class AlterConfigsResourceResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


def _read_alter_configs_resource_response(buf: Buffer, pos: int, version: int) -> tuple[AlterConfigsResourceResponse, int]:
    flex = version >= 2
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterConfigsResourceResponse(error_code, error_message, resource_type, resource_name), pos


def _write_alter_configs_resource_response(put: Put, m: AlterConfigsResourceResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    if flex:
        put(b"\0")


class AlterConfigsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = []


def _read_alter_configs_response(buf: Buffer, pos: int, version: int) -> tuple[AlterConfigsResponse, int]:
    flex = version >= 2
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    responses: list[AlterConfigsResourceResponse] = []
    for _ in range(_count):
        _responses_item, pos = _read_alter_configs_resource_response(buf, pos, version)
        responses.append(_responses_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AlterConfigsResponse(throttle_time_ms, responses), pos


def _write_alter_configs_response(put: Put, m: AlterConfigsResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.responses) + 1) if flex else length(len(m.responses)))
    for item_responses in m.responses:
        _write_alter_configs_resource_response(put, item_responses, version)
    if flex:
        put(b"\0")


decode_request = _read_alter_configs_request
encode_request = _write_alter_configs_request
decode_response = _read_alter_configs_response
encode_response = _write_alter_configs_response
