"""GroupMetadataValue: generated from protocol/schemas/group_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    bytes_length,
    compact_bytes_length,
    compact_string,
    length,
    read_bytes,
    read_compact_bytes,
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

_fmt_i = _Struct(">i")
_fmt_q = _Struct(">q")

RECORD_TYPE = 2
MIN_VERSION = 0
MAX_VERSION = 4

class MemberMetadata(msgspec.Struct, gc=False):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


def _read_member_metadata(buf: Buffer, pos: int, version: int) -> tuple[MemberMetadata, int]:
    flex = version >= 4
    member_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    group_instance_id: str | None = None
    if version >= 3:
        group_instance_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    client_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    client_host, pos = (read_compact_string if flex else read_string)(buf, pos)
    rebalance_timeout: int = -1
    if version >= 1:
        (rebalance_timeout,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    (session_timeout,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    subscription, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    assignment, pos = (read_compact_bytes if flex else read_bytes)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return MemberMetadata(member_id, group_instance_id, client_id, client_host, rebalance_timeout, session_timeout, subscription, assignment), pos


def _write_member_metadata(put: Put, m: MemberMetadata, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.member_id))
    if version >= 3:
        put((compact_string if flex else string)(m.group_instance_id))
    put((compact_string if flex else string)(m.client_id))
    put((compact_string if flex else string)(m.client_host))
    if version >= 1:
        put(_fmt_i.pack(m.rebalance_timeout))
    put(_fmt_i.pack(m.session_timeout))
    put((compact_bytes_length if flex else bytes_length)(m.subscription))
    put(m.subscription)
    put((compact_bytes_length if flex else bytes_length)(m.assignment))
    put(m.assignment)
    if flex:
        put(b"\0")


class GroupMetadataValue(msgspec.Struct, gc=False):
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = []


def _read_group_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[GroupMetadataValue, int]:
    flex = version >= 4
    protocol_type, pos = (read_compact_string if flex else read_string)(buf, pos)
    (generation,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    protocol, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    leader, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    current_state_timestamp: int = -1
    if version >= 2:
        (current_state_timestamp,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    _count, pos = (read_compact_length if flex else read_length)(buf, pos)
    members: list[MemberMetadata] = []
    for _ in range(_count):
        _members_item, pos = _read_member_metadata(buf, pos, version)
        members.append(_members_item)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return GroupMetadataValue(protocol_type, generation, protocol, leader, current_state_timestamp, members), pos


def _write_group_metadata_value(put: Put, m: GroupMetadataValue, version: int) -> None:
    flex = version >= 4
    put((compact_string if flex else string)(m.protocol_type))
    put(_fmt_i.pack(m.generation))
    put((compact_string if flex else string)(m.protocol))
    put((compact_string if flex else string)(m.leader))
    if version >= 2:
        put(_fmt_q.pack(m.current_state_timestamp))
    put(uvarint(len(m.members) + 1) if flex else length(len(m.members)))
    for item_members in m.members:
        _write_member_metadata(put, item_members, version)
    if flex:
        put(b"\0")


decode = _read_group_metadata_value
encode = _write_group_metadata_value
