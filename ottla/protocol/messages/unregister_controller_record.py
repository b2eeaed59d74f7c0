"""UnregisterControllerRecord: generated from protocol/schemas/unregister_controller_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_i = _Struct(">i")

RECORD_TYPE = 29
MIN_VERSION = 0
MAX_VERSION = 0

class UnregisterControllerRecord(msgspec.Struct, gc=False):
    controller_id: int = 0


def _read_unregister_controller_record(buf: Buffer, pos: int, version: int) -> tuple[UnregisterControllerRecord, int]:
    (controller_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UnregisterControllerRecord(controller_id), pos


def _write_unregister_controller_record(put: Put, m: UnregisterControllerRecord, version: int) -> None:
    put(_fmt_i.pack(m.controller_id))
    put(b"\0")


decode = _read_unregister_controller_record
encode = _write_unregister_controller_record
