"""StreamsGroupMemberMetadataValue: generated from protocol/schemas/streams_group_member_metadata_value.schema by protocol.codegen; do not edit."""

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

_fmt_H = _Struct(">H")
_fmt_ii = _Struct(">ii")

RECORD_TYPE = 19
MIN_VERSION = 0
MAX_VERSION = 0

class Endpoint(msgspec.Struct, gc=False):
    host: str = ""
    port: int = 0


def _read_endpoint(buf: Buffer, pos: int, version: int) -> tuple[Endpoint, int]:
    host, pos = read_compact_string(buf, pos)
    (port,) = _fmt_H.unpack_from(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Endpoint(host, port), pos


def _write_endpoint(put: Put, m: Endpoint, version: int) -> None:
    put(compact_string(m.host))
    put(_fmt_H.pack(m.port))
    put(b"\0")


class KeyValue(msgspec.Struct, gc=False):
    key: str = ""
    value: str = ""


def _read_key_value(buf: Buffer, pos: int, version: int) -> tuple[KeyValue, int]:
    key, pos = read_compact_string(buf, pos)
    value, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return KeyValue(key, value), pos


def _write_key_value(put: Put, m: KeyValue, version: int) -> None:
    put(compact_string(m.key))
    put(compact_string(m.value))
    put(b"\0")


class StreamsGroupMemberMetadataValue(msgspec.Struct, gc=False):
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = []


def _read_streams_group_member_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[StreamsGroupMemberMetadataValue, int]:
    instance_id, pos = read_compact_nullable_string(buf, pos)
    rack_id, pos = read_compact_nullable_string(buf, pos)
    client_id, pos = read_compact_string(buf, pos)
    client_host, pos = read_compact_string(buf, pos)
    rebalance_timeout_ms, topology_epoch = _fmt_ii.unpack_from(buf, pos)
    pos += 8
    process_id, pos = read_compact_string(buf, pos)
    user_endpoint: Endpoint | None = None
    _present = buf[pos]
    pos += 1
    if _present == 1:
        user_endpoint, pos = _read_endpoint(buf, pos, version)
    _count, pos = read_compact_length(buf, pos)
    client_tags: list[KeyValue] = []
    for _ in range(_count):
        _client_tags_item, pos = _read_key_value(buf, pos, version)
        client_tags.append(_client_tags_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return StreamsGroupMemberMetadataValue(instance_id, rack_id, client_id, client_host, rebalance_timeout_ms, topology_epoch, process_id, user_endpoint, client_tags), pos


def _write_streams_group_member_metadata_value(put: Put, m: StreamsGroupMemberMetadataValue, version: int) -> None:
    put(compact_string(m.instance_id))
    put(compact_string(m.rack_id))
    put(compact_string(m.client_id))
    put(compact_string(m.client_host))
    put(_fmt_ii.pack(m.rebalance_timeout_ms, m.topology_epoch))
    put(compact_string(m.process_id))
    if m.user_endpoint is None:
        put(b"\xff")
    else:
        put(b"\x01")
        _write_endpoint(put, m.user_endpoint, version)
    put(uvarint(len(m.client_tags) + 1))
    for item_client_tags in m.client_tags:
        _write_key_value(put, item_client_tags, version)
    put(b"\0")


decode = _read_streams_group_member_metadata_value
encode = _write_streams_group_member_metadata_value
