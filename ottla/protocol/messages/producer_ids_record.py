"""ProducerIdsRecord: generated from protocol/schemas/producer_ids_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_iqq = _Struct(">iqq")

RECORD_TYPE = 15
MIN_VERSION = 0
MAX_VERSION = 0

class ProducerIdsRecord(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0


def _read_producer_ids_record(buf: Buffer, pos: int, version: int) -> tuple[ProducerIdsRecord, int]:
    broker_id, broker_epoch, next_producer_id = _fmt_iqq.unpack_from(buf, pos)
    pos += 20
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ProducerIdsRecord(broker_id, broker_epoch, next_producer_id), pos


def _write_producer_ids_record(put: Put, m: ProducerIdsRecord, version: int) -> None:
    put(_fmt_iqq.pack(m.broker_id, m.broker_epoch, m.next_producer_id))
    put(b"\0")


decode = _read_producer_ids_record
encode = _write_producer_ids_record
