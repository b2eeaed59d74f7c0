"""NoOpRecord: generated from protocol/schemas/no_op_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)


RECORD_TYPE = 20
MIN_VERSION = 0
MAX_VERSION = 0

class NoOpRecord(msgspec.Struct, gc=False):
    pass


def _read_no_op_record(buf: Buffer, pos: int, version: int) -> tuple[NoOpRecord, int]:
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return NoOpRecord(), pos


def _write_no_op_record(put: Put, m: NoOpRecord, version: int) -> None:
    put(b"\0")


decode = _read_no_op_record
encode = _write_no_op_record
