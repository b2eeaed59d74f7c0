"""RemoveAccessControlEntryRecord: generated from protocol/schemas/remove_access_control_entry_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    skip_tags,
)

_fmt_U_ = _Struct(">16s")

RECORD_TYPE = 19
MIN_VERSION = 0
MAX_VERSION = 0

class RemoveAccessControlEntryRecord(msgspec.Struct, gc=False):
    id: bytes = NO_UUID


def _read_remove_access_control_entry_record(buf: Buffer, pos: int, version: int) -> tuple[RemoveAccessControlEntryRecord, int]:
    (id,) = _fmt_U_.unpack_from(buf, pos)
    pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RemoveAccessControlEntryRecord(id), pos


def _write_remove_access_control_entry_record(put: Put, m: RemoveAccessControlEntryRecord, version: int) -> None:
    put(_fmt_U_.pack(m.id))
    put(b"\0")


decode = _read_remove_access_control_entry_record
encode = _write_remove_access_control_entry_record
