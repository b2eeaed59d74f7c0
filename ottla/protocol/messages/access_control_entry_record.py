"""AccessControlEntryRecord: generated from protocol/schemas/access_control_entry_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_string,
    skip_tags,
)

_fmt_U_b = _Struct(">16sb")
_fmt_b = _Struct(">b")
_fmt_bb = _Struct(">bb")

RECORD_TYPE = 18
MIN_VERSION = 0
MAX_VERSION = 0

class AccessControlEntryRecord(msgspec.Struct, gc=False):
    id: bytes = NO_UUID
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


def _read_access_control_entry_record(buf: Buffer, pos: int, version: int) -> tuple[AccessControlEntryRecord, int]:
    id, resource_type = _fmt_U_b.unpack_from(buf, pos)
    pos += 17
    resource_name, pos = read_compact_string(buf, pos)
    (pattern_type,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    principal, pos = read_compact_string(buf, pos)
    host, pos = read_compact_string(buf, pos)
    operation, permission_type = _fmt_bb.unpack_from(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AccessControlEntryRecord(id, resource_type, resource_name, pattern_type, principal, host, operation, permission_type), pos


def _write_access_control_entry_record(put: Put, m: AccessControlEntryRecord, version: int) -> None:
    put(_fmt_U_b.pack(m.id, m.resource_type))
    put(compact_string(m.resource_name))
    put(_fmt_b.pack(m.pattern_type))
    put(compact_string(m.principal))
    put(compact_string(m.host))
    put(_fmt_bb.pack(m.operation, m.permission_type))
    put(b"\0")


decode = _read_access_control_entry_record
encode = _write_access_control_entry_record
