"""UpdateFeatures: generated from protocol/schemas/update_features.schema by protocol.codegen; do not edit."""

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

_fmt_B_ = _Struct(">?")
_fmt_b = _Struct(">b")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 57

class FeatureUpdateKey(msgspec.Struct, gc=False):
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1


def _read_feature_update_key(buf: Buffer, pos: int, version: int) -> tuple[FeatureUpdateKey, int]:
    feature, pos = read_compact_string(buf, pos)
    (max_version_level,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    allow_downgrade: bool = False
    if version <= 0:
        (allow_downgrade,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    upgrade_type: int = 1
    if version >= 1:
        (upgrade_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return FeatureUpdateKey(feature, max_version_level, allow_downgrade, upgrade_type), pos


def _write_feature_update_key(put: Put, m: FeatureUpdateKey, version: int) -> None:
    put(compact_string(m.feature))
    put(_fmt_h.pack(m.max_version_level))
    if version <= 0:
        put(_fmt_B_.pack(m.allow_downgrade))
    if version >= 1:
        put(_fmt_b.pack(m.upgrade_type))
    put(b"\0")


class UpdateFeaturesRequest(msgspec.Struct, gc=False):
    timeout_ms: int = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: bool = False


def _read_update_features_request(buf: Buffer, pos: int, version: int) -> tuple[UpdateFeaturesRequest, int]:
    (timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    feature_updates: list[FeatureUpdateKey] = []
    for _ in range(_count):
        _feature_updates_item, pos = _read_feature_update_key(buf, pos, version)
        feature_updates.append(_feature_updates_item)
    validate_only: bool = False
    if version >= 1:
        (validate_only,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UpdateFeaturesRequest(timeout_ms, feature_updates, validate_only), pos


def _write_update_features_request(put: Put, m: UpdateFeaturesRequest, version: int) -> None:
    put(_fmt_i.pack(m.timeout_ms))
    put(uvarint(len(m.feature_updates) + 1))
    for item_feature_updates in m.feature_updates:
        _write_feature_update_key(put, item_feature_updates, version)
    if version >= 1:
        put(_fmt_B_.pack(m.validate_only))
    put(b"\0")


class UpdatableFeatureResult(msgspec.Struct, gc=False):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""


def _read_updatable_feature_result(buf: Buffer, pos: int, version: int) -> tuple[UpdatableFeatureResult, int]:
    feature: str = ""
    if version <= 1:
        feature, pos = read_compact_string(buf, pos)
    error_code: int = 0
    if version <= 1:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    error_message: str | None = ""
    if version <= 1:
        error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UpdatableFeatureResult(feature, error_code, error_message), pos


def _write_updatable_feature_result(put: Put, m: UpdatableFeatureResult, version: int) -> None:
    if version <= 1:
        put(compact_string(m.feature))
    if version <= 1:
        put(_fmt_h.pack(m.error_code))
    if version <= 1:
        put(compact_string(m.error_message))
    put(b"\0")


class UpdateFeaturesResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = []


def _read_update_features_response(buf: Buffer, pos: int, version: int) -> tuple[UpdateFeaturesResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    results: list[UpdatableFeatureResult] = []
    if version <= 1:
        _count, pos = read_compact_length(buf, pos)
        results = []
        for _ in range(_count):
            _results_item, pos = _read_updatable_feature_result(buf, pos, version)
            results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UpdateFeaturesResponse(throttle_time_ms, error_code, error_message, results), pos


def _write_update_features_response(put: Put, m: UpdateFeaturesResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    if version <= 1:
        put(uvarint(len(m.results) + 1))
        for item_results in m.results:
            _write_updatable_feature_result(put, item_results, version)
    put(b"\0")


decode_request = _read_update_features_request
encode_request = _write_update_features_request
decode_response = _read_update_features_response
encode_response = _write_update_features_response
