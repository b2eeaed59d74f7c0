"""FindCoordinator: generated from protocol/schemas/find_coordinator.schema by protocol.codegen; do not edit."""

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

_fmt_b = _Struct(">b")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 10

class FindCoordinatorRequest(msgspec.Struct, gc=False):
    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = []


def _read_find_coordinator_request(buf: Buffer, pos: int, version: int) -> tuple[FindCoordinatorRequest, int]:
    flex = version >= 3
    key: str = ""
    if version <= 3:
        key, pos = (read_compact_string if flex else read_string)(buf, pos)
    key_type: int = 0
    if version >= 1:
        (key_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    coordinator_keys: list[str] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        coordinator_keys = []
        for _ in range(_count):
            _coordinator_keys_item, pos = (read_compact_string if flex else read_string)(buf, pos)
            coordinator_keys.append(_coordinator_keys_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return FindCoordinatorRequest(key, key_type, coordinator_keys), pos


def _write_find_coordinator_request(put: Put, m: FindCoordinatorRequest, version: int) -> None:
    flex = version >= 3
    if version <= 3:
        put((compact_string if flex else string)(m.key))
    if version >= 1:
        put(_fmt_b.pack(m.key_type))
    if version >= 4:
        put(uvarint(len(m.coordinator_keys) + 1) if flex else length(len(m.coordinator_keys)))
        for item_coordinator_keys in m.coordinator_keys:
            put((compact_string if flex else string)(item_coordinator_keys))
    if flex:
        put(b"\0")


class Coordinator(msgspec.Struct, gc=False):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_coordinator(buf: Buffer, pos: int, version: int) -> tuple[Coordinator, int]:
    flex = version >= 3
    key: str = ""
    if version >= 4:
        key, pos = (read_compact_string if flex else read_string)(buf, pos)
    node_id: int = 0
    if version >= 4:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    host: str = ""
    if version >= 4:
        host, pos = (read_compact_string if flex else read_string)(buf, pos)
    port: int = 0
    error_code: int = 0
    if version >= 4:
        port, error_code = _fmt_ih.unpack_from(buf, pos)
        pos += 6
    error_message: str | None = ""
    if version >= 4:
        error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return Coordinator(key, node_id, host, port, error_code, error_message), pos


def _write_coordinator(put: Put, m: Coordinator, version: int) -> None:
    flex = version >= 3
    if version >= 4:
        put((compact_string if flex else string)(m.key))
    if version >= 4:
        put(_fmt_i.pack(m.node_id))
    if version >= 4:
        put((compact_string if flex else string)(m.host))
    if version >= 4:
        put(_fmt_ih.pack(m.port, m.error_code))
    if version >= 4:
        put((compact_string if flex else string)(m.error_message))
    if flex:
        put(b"\0")


class FindCoordinatorResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinator] = []


def _read_find_coordinator_response(buf: Buffer, pos: int, version: int) -> tuple[FindCoordinatorResponse, int]:
    flex = version >= 3
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    error_code: int = 0
    if version <= 3:
        (error_code,) = _fmt_h.unpack_from(buf, pos)
        pos += 2
    error_message: str | None = ""
    if version >= 1 and version <= 3:
        error_message, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    node_id: int = 0
    if version <= 3:
        (node_id,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    host: str = ""
    if version <= 3:
        host, pos = (read_compact_string if flex else read_string)(buf, pos)
    port: int = 0
    if version <= 3:
        (port,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    coordinators: list[Coordinator] = []
    if version >= 4:
        _count, pos = (read_compact_length if flex else read_length)(buf, pos)
        coordinators = []
        for _ in range(_count):
            _coordinators_item, pos = _read_coordinator(buf, pos, version)
            coordinators.append(_coordinators_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return FindCoordinatorResponse(throttle_time_ms, error_code, error_message, node_id, host, port, coordinators), pos


def _write_find_coordinator_response(put: Put, m: FindCoordinatorResponse, version: int) -> None:
    flex = version >= 3
    if version >= 1:
        put(_fmt_i.pack(m.throttle_time_ms))
    if version <= 3:
        put(_fmt_h.pack(m.error_code))
    if version >= 1 and version <= 3:
        put((compact_string if flex else string)(m.error_message))
    if version <= 3:
        put(_fmt_i.pack(m.node_id))
    if version <= 3:
        put((compact_string if flex else string)(m.host))
    if version <= 3:
        put(_fmt_i.pack(m.port))
    if version >= 4:
        put(uvarint(len(m.coordinators) + 1) if flex else length(len(m.coordinators)))
        for item_coordinators in m.coordinators:
            _write_coordinator(put, item_coordinators, version)
    if flex:
        put(b"\0")


decode_request = _read_find_coordinator_request
encode_request = _write_find_coordinator_request
decode_response = _read_find_coordinator_response
encode_response = _write_find_coordinator_response
