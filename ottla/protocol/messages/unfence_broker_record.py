"""UnfenceBrokerRecord: generated from protocol/schemas/unfence_broker_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_iq = _Struct(">iq")

RECORD_TYPE = 8
MIN_VERSION = 0
MAX_VERSION = 0

class UnfenceBrokerRecord(msgspec.Struct, gc=False):
    id: int = 0
    epoch: int = 0


def _read_unfence_broker_record(buf: Buffer, pos: int, version: int) -> tuple[UnfenceBrokerRecord, int]:
    id, epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UnfenceBrokerRecord(id, epoch), pos


def _write_unfence_broker_record(put: Put, m: UnfenceBrokerRecord, version: int) -> None:
    put(_fmt_iq.pack(m.id, m.epoch))
    put(b"\0")


decode = _read_unfence_broker_record
encode = _write_unfence_broker_record
