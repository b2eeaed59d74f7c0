"""GroupMetadataKey: generated from protocol/schemas/group_metadata_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 2
MIN_VERSION = 0
MAX_VERSION = 0

class GroupMetadataKey(msgspec.Struct, gc=False):
    group: str = ""


def _read_group_metadata_key(buf: Buffer, pos: int, version: int) -> tuple[GroupMetadataKey, int]:
    group, pos = read_string(buf, pos)
    return GroupMetadataKey(group), pos


def _write_group_metadata_key(put: Put, m: GroupMetadataKey, version: int) -> None:
    put(string(m.group))


decode = _read_group_metadata_key
encode = _write_group_metadata_key
