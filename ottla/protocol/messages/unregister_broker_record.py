"""UnregisterBrokerRecord: generated from protocol/schemas/unregister_broker_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_iq = _Struct(">iq")

RECORD_TYPE = 1
MIN_VERSION = 0
MAX_VERSION = 0

class UnregisterBrokerRecord(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = 0


def _read_unregister_broker_record(buf: Buffer, pos: int, version: int) -> tuple[UnregisterBrokerRecord, int]:
    broker_id, broker_epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UnregisterBrokerRecord(broker_id, broker_epoch), pos


def _write_unregister_broker_record(put: Put, m: UnregisterBrokerRecord, version: int) -> None:
    put(_fmt_iq.pack(m.broker_id, m.broker_epoch))
    put(b"\0")


decode = _read_unregister_broker_record
encode = _write_unregister_broker_record
