"""ShareSnapshotKey: generated from protocol/schemas/share_snapshot_key.schema by protocol.codegen; do not edit."""

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

RECORD_TYPE = 0
MIN_VERSION = 0
MAX_VERSION = 0

class ShareSnapshotKey(msgspec.Struct, gc=False):
    group_id: str = ""
    topic_id: bytes = NO_UUID
    partition: int = 0


def _read_share_snapshot_key(buf: Buffer, pos: int, version: int) -> tuple[ShareSnapshotKey, int]:
    group_id, pos = read_string(buf, pos)
    topic_id, partition = _fmt_U_i.unpack_from(buf, pos)
    pos += 20
    return ShareSnapshotKey(group_id, topic_id, partition), pos


def _write_share_snapshot_key(put: Put, m: ShareSnapshotKey, version: int) -> None:
    put(string(m.group_id))
    put(_fmt_U_i.pack(m.topic_id, m.partition))


decode = _read_share_snapshot_key
encode = _write_share_snapshot_key
