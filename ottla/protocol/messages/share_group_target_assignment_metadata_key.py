"""ShareGroupTargetAssignmentMetadataKey: generated from protocol/schemas/share_group_target_assignment_metadata_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 12
MIN_VERSION = 0
MAX_VERSION = 0

class ShareGroupTargetAssignmentMetadataKey(msgspec.Struct, gc=False):
    group_id: str = ""


def _read_share_group_target_assignment_metadata_key(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupTargetAssignmentMetadataKey, int]:
    group_id, pos = read_string(buf, pos)
    return ShareGroupTargetAssignmentMetadataKey(group_id), pos


def _write_share_group_target_assignment_metadata_key(put: Put, m: ShareGroupTargetAssignmentMetadataKey, version: int) -> None:
    put(string(m.group_id))


decode = _read_share_group_target_assignment_metadata_key
encode = _write_share_group_target_assignment_metadata_key
