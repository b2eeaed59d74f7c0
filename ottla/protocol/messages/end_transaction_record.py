"""EndTransactionRecord: generated from protocol/schemas/end_transaction_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)


RECORD_TYPE = 24
MIN_VERSION = 0
MAX_VERSION = 0

class EndTransactionRecord(msgspec.Struct, gc=False):
    pass


def _read_end_transaction_record(buf: Buffer, pos: int, version: int) -> tuple[EndTransactionRecord, int]:
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return EndTransactionRecord(), pos


def _write_end_transaction_record(put: Put, m: EndTransactionRecord, version: int) -> None:
    put(b"\0")


decode = _read_end_transaction_record
encode = _write_end_transaction_record
