"""DescribeConfigs: generated from protocol/schemas/describe_configs.schema by protocol.codegen; do not edit."""

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
_fmt_B_bB_ = _Struct(">?b?")
_fmt_b = _Struct(">b")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 32

class DescribeConfigsResource(msgspec.Struct, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


def _read_describe_configs_resource(buf: Buffer, pos: int, version: int) -> tuple[DescribeConfigsResource, int]:
    flex = version >= 4
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_nullable_length if flex else read_nullable_length)(buf, pos)
    configuration_keys: list[str] | None = None
    if _count >= 0:
        configuration_keys = []
        for _ in range(_count):
            _configuration_keys_item, pos = (read_compact_string if flex else read_string)(buf, pos)
            configuration_keys.append(_configuration_keys_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeConfigsResource(resource_type, resource_name, configuration_keys), pos


def _write_describe_configs_resource(put: Put, m: DescribeConfigsResource, version: int) -> None:
    flex = version >= 4
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    if m.configuration_keys is None:
        put(b"\0" if flex else b"\xff\xff\xff\xff")
    else:
        put(uvarint(len(m.configuration_keys) + 1) if flex else length(len(m.configuration_keys)))
        for item_configuration_keys in m.configuration_keys:
            put((compact_string if flex else string)(item_configuration_keys))
    if flex:
        put(b"\0")


class DescribeConfigsRequest(msgspec.Struct, gc=False):
    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: bool = False


def _read_describe_configs_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeConfigsRequest, int]:
    flex = version >= 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    resources: list[DescribeConfigsResource] = []
    for _ in range(_count):
        _resources_item, pos = _read_describe_configs_resource(buf, pos, version)
        resources.append(_resources_item)
    (include_synonyms,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    include_documentation: bool = False
    if version >= 3:
        (include_documentation,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeConfigsRequest(resources, include_synonyms, include_documentation), pos


def _write_describe_configs_request(put: Put, m: DescribeConfigsRequest, version: int) -> None:
    flex = version >= 4
    put(uvarint(len(m.resources) + 1) if flex else length(len(m.resources)))
    for item_resources in m.resources:
        _write_describe_configs_resource(put, item_resources, version)
    put(_fmt_B_.pack(m.include_synonyms))
    if version >= 3:
        put(_fmt_B_.pack(m.include_documentation))
    if flex:
        put(b"\0")


class DescribeConfigsSynonym(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = ""
    source: int = 0


def _read_describe_configs_synonym(buf: Buffer, pos: int, version: int) -> tuple[DescribeConfigsSynonym, int]:
    flex = version >= 4
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    value, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    (source,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeConfigsSynonym(name, value, source), pos


def _write_describe_configs_synonym(put: Put, m: DescribeConfigsSynonym, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.name))
    put((compact_string if flex else string)(m.value))
    put(_fmt_b.pack(m.source))
    if flex:
        put(b"\0")


class DescribeConfigsResourceResult(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = []
    config_type: int = 0
    documentation: str | None = ""


def _read_describe_configs_resource_result(buf: Buffer, pos: int, version: int) -> tuple[DescribeConfigsResourceResult, int]:
    flex = version >= 4
    name, pos = (read_compact_string if flex else read_string)(buf, pos)
    value, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    read_only, config_source, is_sensitive = _fmt_B_bB_.unpack_from(buf, pos)
    pos += 3
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    synonyms: list[DescribeConfigsSynonym] = []
    for _ in range(_count):
        _synonyms_item, pos = _read_describe_configs_synonym(buf, pos, version)
        synonyms.append(_synonyms_item)
    config_type: int = 0
    if version >= 3:
        (config_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    documentation: str | None = ""
    if version >= 3:
        documentation, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeConfigsResourceResult(name, value, read_only, config_source, is_sensitive, synonyms, config_type, documentation), pos


def _write_describe_configs_resource_result(put: Put, m: DescribeConfigsResourceResult, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.name))
    put((compact_string if flex else string)(m.value))
    put(_fmt_B_bB_.pack(m.read_only, m.config_source, m.is_sensitive))
    put(uvarint(len(m.synonyms) + 1) if flex else length(len(m.synonyms)))
    for item_synonyms in m.synonyms:
        _write_describe_configs_synonym(put, item_synonyms, version)
    if version >= 3:
        put(_fmt_b.pack(m.config_type))
    if version >= 3:
        put((compact_string if flex else string)(m.documentation))
    if flex:
        put(b"\0")


class DescribeConfigsResult(msgspec.Struct, gc=False):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


def _read_describe_configs_result(buf: Buffer, pos: int, version: int) -> tuple[DescribeConfigsResult, int]:
    flex = version >= 4
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    (resource_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    resource_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    configs: list[DescribeConfigsResourceResult] = []
    for _ in range(_count):
        _configs_item, pos = _read_describe_configs_resource_result(buf, pos, version)
        configs.append(_configs_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeConfigsResult(error_code, error_message, resource_type, resource_name, configs), pos


def _write_describe_configs_result(put: Put, m: DescribeConfigsResult, version: int) -> None:
    flex = version >= 4
    put(_fmt_h.pack(m.error_code))
    put((compact_string if flex else string)(m.error_message))
    put(_fmt_b.pack(m.resource_type))
    put((compact_string if flex else string)(m.resource_name))
    put(uvarint(len(m.configs) + 1) if flex else length(len(m.configs)))
    for item_configs in m.configs:
        _write_describe_configs_resource_result(put, item_configs, version)
    if flex:
        put(b"\0")


class DescribeConfigsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = []


def _read_describe_configs_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeConfigsResponse, int]:
    flex = version >= 4
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    results: list[DescribeConfigsResult] = []
    for _ in range(_count):
        _results_item, pos = _read_describe_configs_result(buf, pos, version)
        results.append(_results_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return DescribeConfigsResponse(throttle_time_ms, results), pos


def _write_describe_configs_response(put: Put, m: DescribeConfigsResponse, version: int) -> None:
    flex = version >= 4
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.results) + 1) if flex else length(len(m.results)))
    for item_results in m.results:
        _write_describe_configs_result(put, item_results, version)
    if flex:
        put(b"\0")


decode_request = _read_describe_configs_request
encode_request = _write_describe_configs_request
decode_response = _read_describe_configs_response
encode_response = _write_describe_configs_response
