"""ListConfigResources: generated from protocol/schemas/list_config_resources.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_b = _Struct(">b")
_fmt_ih = _Struct(">ih")

API_KEY = 74

class ListConfigResourcesRequest(msgspec.Struct, gc=False):
    resource_types: list[int] = []


def _read_list_config_resources_request(buf: Buffer, pos: int, version: int) -> tuple[ListConfigResourcesRequest, int]:
    resource_types: list[int] = []
    if version >= 1:
        _count, pos = read_compact_length(buf, pos)
        resource_types = list(unpack_from(f">{_count}b", buf, pos))
        pos += 1 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListConfigResourcesRequest(resource_types), pos


def _write_list_config_resources_request(put: Put, m: ListConfigResourcesRequest, version: int) -> None:
    if version >= 1:
        put(uvarint(len(m.resource_types) + 1))
        put(pack(f">{len(m.resource_types)}b", *m.resource_types))
    put(b"\0")


class ConfigResource(msgspec.Struct, gc=False):
    resource_name: str = ""
    resource_type: int = 16


def _read_config_resource(buf: Buffer, pos: int, version: int) -> tuple[ConfigResource, int]:
    resource_name, pos = read_compact_string(buf, pos)
    resource_type: int = 16
    if version >= 1:
        (resource_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ConfigResource(resource_name, resource_type), pos


def _write_config_resource(put: Put, m: ConfigResource, version: int) -> None:
    put(compact_string(m.resource_name))
    if version >= 1:
        put(_fmt_b.pack(m.resource_type))
    put(b"\0")


class ListConfigResourcesResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = []


def _read_list_config_resources_response(buf: Buffer, pos: int, version: int) -> tuple[ListConfigResourcesResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    _count, pos = read_compact_length(buf, pos)
    config_resources: list[ConfigResource] = []
    for _ in range(_count):
        _config_resources_item, pos = _read_config_resource(buf, pos, version)
        config_resources.append(_config_resources_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ListConfigResourcesResponse(throttle_time_ms, error_code, config_resources), pos


def _write_list_config_resources_response(put: Put, m: ListConfigResourcesResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(uvarint(len(m.config_resources) + 1))
    for item_config_resources in m.config_resources:
        _write_config_resource(put, item_config_resources, version)
    put(b"\0")


decode_request = _read_list_config_resources_request
encode_request = _write_list_config_resources_request
decode_response = _read_list_config_resources_response
encode_response = _write_list_config_resources_response
