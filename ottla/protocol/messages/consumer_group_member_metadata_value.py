"""ConsumerGroupMemberMetadataValue: generated from protocol/schemas/consumer_group_member_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_bytes_length,
    compact_string,
    put_tags,
    read_compact_bytes,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_i = _Struct(">i")

RECORD_TYPE = 5
MIN_VERSION = 0
MAX_VERSION = 0

class ClassicProtocol(msgspec.Struct, gc=False):
    name: str = ""
    metadata: bytes = b""


def _read_classic_protocol(buf: Buffer, pos: int, version: int) -> tuple[ClassicProtocol, int]:
    name, pos = read_compact_string(buf, pos)
    metadata, pos = read_compact_bytes(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ClassicProtocol(name, metadata), pos


def _write_classic_protocol(put: Put, m: ClassicProtocol, version: int) -> None:
    put(compact_string(m.name))
    put(compact_bytes_length(m.metadata))
    put(m.metadata)
    put(b"\0")


class ClassicMemberMetadata(msgspec.Struct, gc=False):
    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = []


def _read_classic_member_metadata(buf: Buffer, pos: int, version: int) -> tuple[ClassicMemberMetadata, int]:
    (session_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    supported_protocols: list[ClassicProtocol] = []
    for _ in range(_count):
        _supported_protocols_item, pos = _read_classic_protocol(buf, pos, version)
        supported_protocols.append(_supported_protocols_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ClassicMemberMetadata(session_timeout_ms, supported_protocols), pos


def _write_classic_member_metadata(put: Put, m: ClassicMemberMetadata, version: int) -> None:
    put(_fmt_i.pack(m.session_timeout_ms))
    put(uvarint(len(m.supported_protocols) + 1))
    for item_supported_protocols in m.supported_protocols:
        _write_classic_protocol(put, item_supported_protocols, version)
    put(b"\0")


class ConsumerGroupMemberMetadataValue(msgspec.Struct, gc=False):
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = None


def _read_consumer_group_member_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[ConsumerGroupMemberMetadataValue, int]:
    instance_id, pos = read_compact_nullable_string(buf, pos)
    rack_id, pos = read_compact_nullable_string(buf, pos)
    client_id, pos = read_compact_string(buf, pos)
    client_host, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    subscribed_topic_names: list[str] = []
    for _ in range(_count):
        _subscribed_topic_names_item, pos = read_compact_string(buf, pos)
        subscribed_topic_names.append(_subscribed_topic_names_item)
    subscribed_topic_regex, pos = read_compact_nullable_string(buf, pos)
    (rebalance_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    server_assignor, pos = read_compact_nullable_string(buf, pos)
    classic_member_metadata: ClassicMemberMetadata | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            classic_member_metadata = None
            _present = buf[pos]
            pos += 1
            if _present == 1:
                classic_member_metadata, pos = _read_classic_member_metadata(buf, pos, version)
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return ConsumerGroupMemberMetadataValue(instance_id, rack_id, client_id, client_host, subscribed_topic_names, subscribed_topic_regex, rebalance_timeout_ms, server_assignor, classic_member_metadata), pos


def _write_consumer_group_member_metadata_value(put: Put, m: ConsumerGroupMemberMetadataValue, version: int) -> None:
    put(compact_string(m.instance_id))
    put(compact_string(m.rack_id))
    put(compact_string(m.client_id))
    put(compact_string(m.client_host))
    put(uvarint(len(m.subscribed_topic_names) + 1))
    for item_subscribed_topic_names in m.subscribed_topic_names:
        put(compact_string(item_subscribed_topic_names))
    put(compact_string(m.subscribed_topic_regex))
    put(_fmt_i.pack(m.rebalance_timeout_ms))
    put(compact_string(m.server_assignor))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if m.classic_member_metadata is not None:
        _parts = []
        if m.classic_member_metadata is None:
            _parts.append(b"\xff")
        else:
            _parts.append(b"\x01")
            _write_classic_member_metadata(_parts.append, m.classic_member_metadata, version)
        _tags.append(tagged_field(0, _parts))
    put_tags(put, _tags)


decode = _read_consumer_group_member_metadata_value
encode = _write_consumer_group_member_metadata_value
