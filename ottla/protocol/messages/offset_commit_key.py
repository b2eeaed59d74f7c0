"""OffsetCommitKey: generated from protocol/schemas/offset_commit_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)

_fmt_i = _Struct(">i")

RECORD_TYPE = 1
MIN_VERSION = 0
MAX_VERSION = 0

class OffsetCommitKey(msgspec.Struct, gc=False):
    group: str = ""
    topic: str = ""
    partition: int = 0


def _read_offset_commit_key(buf: Buffer, pos: int, version: int) -> tuple[OffsetCommitKey, int]:
    group, pos = read_string(buf, pos)
    topic, pos = read_string(buf, pos)
    (partition,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    return OffsetCommitKey(group, topic, partition), pos


def _write_offset_commit_key(put: Put, m: OffsetCommitKey, version: int) -> None:
    put(string(m.group))
    put(string(m.topic))
    put(_fmt_i.pack(m.partition))


decode = _read_offset_commit_key
encode = _write_offset_commit_key
