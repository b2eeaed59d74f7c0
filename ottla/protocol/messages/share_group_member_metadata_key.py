"""ShareGroupMemberMetadataKey: generated from protocol/schemas/share_group_member_metadata_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 10
MIN_VERSION = 0
MAX_VERSION = 0

class ShareGroupMemberMetadataKey(msgspec.Struct, gc=False):
    group_id: str = ""
    member_id: str = ""


def _read_share_group_member_metadata_key(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupMemberMetadataKey, int]:
    group_id, pos = read_string(buf, pos)
    member_id, pos = read_string(buf, pos)
    return ShareGroupMemberMetadataKey(group_id, member_id), pos


def _write_share_group_member_metadata_key(put: Put, m: ShareGroupMemberMetadataKey, version: int) -> None:
    put(string(m.group_id))
    put(string(m.member_id))


decode = _read_share_group_member_metadata_key
encode = _write_share_group_member_metadata_key
