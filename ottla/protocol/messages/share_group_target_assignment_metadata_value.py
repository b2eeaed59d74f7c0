"""ShareGroupTargetAssignmentMetadataValue: generated from protocol/schemas/share_group_target_assignment_metadata_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    put_tags,
    read_tag,
    read_tag_count,
)

_fmt_BBq = _Struct(">BBq")
_fmt_i = _Struct(">i")
_fmt_q = _Struct(">q")

RECORD_TYPE = 12
MIN_VERSION = 0
MAX_VERSION = 0

class ShareGroupTargetAssignmentMetadataValue(msgspec.Struct, gc=False):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0


def _read_share_group_target_assignment_metadata_value(buf: Buffer, pos: int, version: int) -> tuple[ShareGroupTargetAssignmentMetadataValue, int]:
    (assignment_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    assignment_timestamp: int = 0
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            (assignment_timestamp,) = _fmt_q.unpack_from(buf, pos)
            pos += 8
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return ShareGroupTargetAssignmentMetadataValue(assignment_epoch, assignment_timestamp), pos


def _write_share_group_target_assignment_metadata_value(put: Put, m: ShareGroupTargetAssignmentMetadataValue, version: int) -> None:
    put(_fmt_i.pack(m.assignment_epoch))
    _tags: list[Buffer] = []
    if m.assignment_timestamp != 0:
        _tags.append(_fmt_BBq.pack(0, 8, m.assignment_timestamp))
    put_tags(put, _tags)


decode = _read_share_group_target_assignment_metadata_value
encode = _write_share_group_target_assignment_metadata_value
