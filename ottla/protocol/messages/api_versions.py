"""ApiVersions: generated from protocol/schemas/api_versions.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    length,
    put_tags,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_length,
    read_nullable_string,
    read_string,
    read_tag,
    read_tag_count,
    skip_tags,
    string,
    tagged_field,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_BBB_ = _Struct(">BB?")
_fmt_BBq = _Struct(">BBq")
_fmt_h = _Struct(">h")
_fmt_hh = _Struct(">hh")
_fmt_hhh = _Struct(">hhh")
_fmt_i = _Struct(">i")
_fmt_q = _Struct(">q")

API_KEY = 18

class ApiVersionsRequest(msgspec.Struct, gc=False):
    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1


def _read_api_versions_request(buf: Buffer, pos: int, version: int) -> tuple[ApiVersionsRequest, int]:
    flex = version >= 3
    client_software_name: str = ""
    if version >= 3:
        client_software_name, pos = (read_compact_string if flex else read_string)(buf, pos)
    client_software_version: str = ""
    if version >= 3:
        client_software_version, pos = (read_compact_string if flex else read_string)(buf, pos)
    cluster_id: str | None = None
    if version >= 5:
        cluster_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    node_id: int = -1
    if version >= 5:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ApiVersionsRequest(client_software_name, client_software_version, cluster_id, node_id), pos


def _write_api_versions_request(put: Put, m: ApiVersionsRequest, version: int) -> None:
    flex = version >= 3
    if version >= 3:
        put((compact_string if flex else string)(m.client_software_name))
    if version >= 3:
        put((compact_string if flex else string)(m.client_software_version))
    if version >= 5:
        put((compact_string if flex else string)(m.cluster_id))
    if version >= 5:
        put(_fmt_i.pack(m.node_id))
    if flex:
        put(b"\0")


class ApiVersion(msgspec.Struct, gc=False):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


def _read_api_version(buf: Buffer, pos: int, version: int) -> tuple[ApiVersion, int]:
    flex = version >= 3
    api_key, min_version, max_version = _fmt_hhh.unpack_from(buf, pos)
    pos += 6
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return ApiVersion(api_key, min_version, max_version), pos


def _write_api_version(put: Put, m: ApiVersion, version: int) -> None:
    flex = version >= 3
    put(_fmt_hhh.pack(m.api_key, m.min_version, m.max_version))
    if flex:
        put(b"\0")


class SupportedFeatureKey(msgspec.Struct, gc=False):
    name: str = ""
    min_version: int = 0
    max_version: int = 0


def _read_supported_feature_key(buf: Buffer, pos: int, version: int) -> tuple[SupportedFeatureKey, int]:
    flex = version >= 3
    name: str = ""
    if version >= 3:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    min_version: int = 0
    max_version: int = 0
    if version >= 3:
        min_version, max_version = _fmt_hh.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return SupportedFeatureKey(name, min_version, max_version), pos


def _write_supported_feature_key(put: Put, m: SupportedFeatureKey, version: int) -> None:
    flex = version >= 3
    if version >= 3:
        put((compact_string if flex else string)(m.name))
    if version >= 3:
        put(_fmt_hh.pack(m.min_version, m.max_version))
    if flex:
        put(b"\0")


class FinalizedFeatureKey(msgspec.Struct, gc=False):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


def _read_finalized_feature_key(buf: Buffer, pos: int, version: int) -> tuple[FinalizedFeatureKey, int]:
    flex = version >= 3
    name: str = ""
    if version >= 3:
        name, pos = (read_compact_string if flex else read_string)(buf, pos)
    max_version_level: int = 0
    min_version_level: int = 0
    if version >= 3:
        max_version_level, min_version_level = _fmt_hh.unpack_from(buf, pos)
        pos += 4
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return FinalizedFeatureKey(name, max_version_level, min_version_level), pos


def _write_finalized_feature_key(put: Put, m: FinalizedFeatureKey, version: int) -> None:
    flex = version >= 3
    if version >= 3:
        put((compact_string if flex else string)(m.name))
    if version >= 3:
        put(_fmt_hh.pack(m.max_version_level, m.min_version_level))
    if flex:
        put(b"\0")


class ApiVersionsResponse(msgspec.Struct, gc=False):
    error_code: int = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = []
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = []
    zk_migration_ready: bool = False


def _read_api_versions_response(buf: Buffer, pos: int, version: int) -> tuple[ApiVersionsResponse, int]:
    flex = version >= 3
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    api_keys: list[ApiVersion] = []
    for _ in range(_count):
        _api_keys_item, pos = _read_api_version(buf, pos, version)
        api_keys.append(_api_keys_item)
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    supported_features: list[SupportedFeatureKey] = []
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = []
    zk_migration_ready: bool = False
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                _count, pos = read_compact_length(buf, pos)
                supported_features = []
                for _ in range(_count):
                    _supported_features_item, pos = _read_supported_feature_key(buf, pos, version)
                    supported_features.append(_supported_features_item)
            elif _tag == 1:
                (finalized_features_epoch,) = _fmt_q.unpack_from(buf, pos)
                pos += 8
            elif _tag == 2:
                _count, pos = read_compact_length(buf, pos)
                finalized_features = []
                for _ in range(_count):
                    _finalized_features_item, pos = _read_finalized_feature_key(buf, pos, version)
                    finalized_features.append(_finalized_features_item)
            elif _tag == 3:
                (zk_migration_ready,) = _fmt_B_.unpack_from(buf, pos)
                pos += 1
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return ApiVersionsResponse(error_code, api_keys, throttle_time_ms, supported_features, finalized_features_epoch, finalized_features, zk_migration_ready), pos


def _write_api_versions_response(put: Put, m: ApiVersionsResponse, version: int) -> None:
    flex = version >= 3
    put(_fmt_h.pack(m.error_code))
    put(uvarint(len(m.api_keys) + 1) if flex else length(len(m.api_keys)))
    for item_api_keys in m.api_keys:
        _write_api_version(put, item_api_keys, version)
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    if flex:
        _tags: list[Buffer] = []
        _parts: list[Buffer]
        if m.supported_features:
            _parts = []
            _parts.append(uvarint(len(m.supported_features) + 1))
            for item_supported_features in m.supported_features:
                _write_supported_feature_key(_parts.append, item_supported_features, version)
            _tags.append(tagged_field(0, _parts))
        if m.finalized_features_epoch != -1:
            _tags.append(_fmt_BBq.pack(1, 8, m.finalized_features_epoch))
        if m.finalized_features:
            _parts = []
            _parts.append(uvarint(len(m.finalized_features) + 1))
            for item_finalized_features in m.finalized_features:
                _write_finalized_feature_key(_parts.append, item_finalized_features, version)
            _tags.append(tagged_field(2, _parts))
        if m.zk_migration_ready:
            _tags.append(_fmt_BBB_.pack(3, 1, m.zk_migration_ready))
        put_tags(put, _tags)


decode_request = _read_api_versions_request
encode_request = _write_api_versions_request
decode_response = _read_api_versions_response
encode_response = _write_api_versions_response
