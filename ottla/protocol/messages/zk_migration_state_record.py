"""ZkMigrationStateRecord: generated from protocol/schemas/zk_migration_state_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_b = _Struct(">b")

RECORD_TYPE = 21
MIN_VERSION = 0
MAX_VERSION = 0

class ZkMigrationStateRecord(msgspec.Struct, gc=False):
    zk_migration_state: int = 0


def _read_zk_migration_state_record(buf: Buffer, pos: int, version: int) -> tuple[ZkMigrationStateRecord, int]:
    (zk_migration_state,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ZkMigrationStateRecord(zk_migration_state), pos


def _write_zk_migration_state_record(put: Put, m: ZkMigrationStateRecord, version: int) -> None:
    put(_fmt_b.pack(m.zk_migration_state))
    put(b"\0")


decode = _read_zk_migration_state_record
encode = _write_zk_migration_state_record
