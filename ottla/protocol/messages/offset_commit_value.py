"""OffsetCommitValue: generated from protocol/schemas/offset_commit_value.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    put_tags,
    read_compact_string,
    read_string,
    read_tag,
    read_tag_count,
    string,
)

_fmt_U_ = _Struct(">16s")
_fmt_BBU_ = _Struct(">BB16s")
_fmt_i = _Struct(">i")
_fmt_q = _Struct(">q")

RECORD_TYPE = 1
MIN_VERSION = 0
MAX_VERSION = 4

class OffsetCommitValue(msgspec.Struct, gc=False):
    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = NO_UUID


def _read_offset_commit_value(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitValue, int]:
    flex = version >= 4
    (offset,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    leader_epoch: int = -1
    if version >= 3:
        (leader_epoch,) = _fmt_i.unpack_from(buf, pos)
        pos += 4
    metadata, pos = (read_compact_string if flex else read_string)(buf, pos)
    (commit_timestamp,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    expire_timestamp: int = -1
    if version >= 1 and version <= 1:
        (expire_timestamp,) = _fmt_q.unpack_from(buf, pos)
        pos += 8
    topic_id: bytes = NO_UUID
    if flex:
        _tags, pos = read_tag_count(buf, pos)
        for _ in range(_tags):
            _tag, _at, _end = read_tag(buf, pos)
            pos = _at
            if _tag == 0:
                (topic_id,) = _fmt_U_.unpack_from(buf, pos)
                pos += 16
            else:
                pos = _end
            if pos != _end:
                raise DecodeError("a tagged field of another size than declared")
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id), pos


def _write_offset_commit_value(put: Put, m: OffsetCommitValue, version: int) -> None:
    flex = version >= 4
    put(_fmt_q.pack(m.offset))
    if version >= 3:
        put(_fmt_i.pack(m.leader_epoch))
    put((compact_string if flex else string)(m.metadata))
    put(_fmt_q.pack(m.commit_timestamp))
    if version >= 1 and version <= 1:
        put(_fmt_q.pack(m.expire_timestamp))
    if flex:
        _tags: list[Buffer] = []
        if m.topic_id != NO_UUID:
            _tags.append(_fmt_BBU_.pack(0, 16, m.topic_id))
        put_tags(put, _tags)


decode = _read_offset_commit_value
encode = _write_offset_commit_value
