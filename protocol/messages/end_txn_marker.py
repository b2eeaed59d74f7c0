"""EndTxnMarker: generated from protocol/schemas/end_txn_marker.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from protocol.primitives import (
    Buffer,
    Put,
)

_fmt_i = _Struct(">i")

RECORD_TYPE = -1
MIN_VERSION = 0
MAX_VERSION = 0

class EndTxnMarker(msgspec.Struct, gc=False):
    coordinator_epoch: int = 0


def _read_end_txn_marker(buf: Buffer, pos: int, version: int) -> tuple[EndTxnMarker, int]:
    (coordinator_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    return EndTxnMarker(coordinator_epoch), pos


def _write_end_txn_marker(put: Put, m: EndTxnMarker, version: int) -> None:
    put(_fmt_i.pack(m.coordinator_epoch))


decode = _read_end_txn_marker
encode = _write_end_txn_marker
