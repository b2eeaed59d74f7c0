"""FenceBrokerRecord: generated from protocol/schemas/fence_broker_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_iq = _Struct(">iq")

RECORD_TYPE = 7
MIN_VERSION = 0
MAX_VERSION = 0

class FenceBrokerRecord(msgspec.Struct, gc=False):
    id: int = 0
    epoch: int = 0


def _read_fence_broker_record(buf: Buffer, pos: int, version: int) -> tuple[FenceBrokerRecord, int]:
    id, epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return FenceBrokerRecord(id, epoch), pos


def _write_fence_broker_record(put: Put, m: FenceBrokerRecord, version: int) -> None:
    put(_fmt_iq.pack(m.id, m.epoch))
    put(b"\0")


decode = _read_fence_broker_record
encode = _write_fence_broker_record
