"""ShareGroupMemberMetadataValue: generated from protocol/schemas/share_group_member_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

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


RECORD_TYPE = 10
MIN_VERSION = 0
MAX_VERSION = 0

class ShareGroupMemberMetadataValue(msgspec.Struct, gc=False):
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []


def _read_share_group_member_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupMemberMetadataValue, int]:
    rack_id, pos = read_compact_nullable_string(buf, pos)
    client_id, pos = read_compact_string(buf, pos)
    client_host, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    subscribed_topic_names: list[str] = []
    for _ in range(_count):
        _subscribed_topic_names_item, pos = read_compact_string(buf, pos)
        subscribed_topic_names.append(_subscribed_topic_names_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ShareGroupMemberMetadataValue(rack_id, client_id, client_host, subscribed_topic_names), pos


def _write_share_group_member_metadata_value(put: Put, m: ShareGroupMemberMetadataValue, version: int) -> None:
    put(compact_string(m.rack_id))
    put(compact_string(m.client_id))
    put(compact_string(m.client_host))
    put(uvarint(len(m.subscribed_topic_names) + 1))
    for item_subscribed_topic_names in m.subscribed_topic_names:
        put(compact_string(item_subscribed_topic_names))
    put(b"\0")


decode = _read_share_group_member_metadata_value
encode = _write_share_group_member_metadata_value
