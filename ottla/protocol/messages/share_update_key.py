"""ShareUpdateKey: generated from protocol/schemas/share_update_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    read_string,
    string,
)

_fmt_U_i = _Struct(">16si")

RECORD_TYPE = 1
MIN_VERSION = 0
MAX_VERSION = 0

class ShareUpdateKey(msgspec.Struct, gc=False):
    group_id: str = ""
    topic_id: bytes = NO_UUID
    partition: int = 0


def _read_share_update_key(buf: Buffer, pos: int, version: int) -> tuple[ShareUpdateKey, int]:
    group_id, pos = read_string(buf, pos)
    topic_id, partition = _fmt_U_i.unpack_from(buf, pos)
    pos += 20
    return ShareUpdateKey(group_id, topic_id, partition), pos


def _write_share_update_key(put: Put, m: ShareUpdateKey, version: int) -> None:
    put(string(m.group_id))
    put(_fmt_U_i.pack(m.topic_id, m.partition))


decode = _read_share_update_key
encode = _write_share_update_key
