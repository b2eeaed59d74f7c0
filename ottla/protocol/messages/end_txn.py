"""EndTxn: generated from protocol/schemas/end_txn.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_string,
    read_string,
    skip_tags,
    string,
)

_fmt_ih = _Struct(">ih")
_fmt_qh = _Struct(">qh")
_fmt_qhB_ = _Struct(">qh?")

API_KEY = 26

class EndTxnRequest(msgspec.Struct, gc=False):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


def _read_end_txn_request(buf: Buffer, pos: int, version: int) -> tuple[EndTxnRequest, int]:
    flex = version >= 3
    transactional_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    producer_id, producer_epoch, committed = _fmt_qhB_.unpack_from(buf, pos)
    pos += 11
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EndTxnRequest(transactional_id, producer_id, producer_epoch, committed), pos


def _write_end_txn_request(put: Put, m: EndTxnRequest, version: int) -> None:
    flex = version >= 3
    put((compact_string if flex else string)(m.transactional_id))
    put(_fmt_qhB_.pack(m.producer_id, m.producer_epoch, m.committed))
    if flex:
        put(b"\0")


class EndTxnResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


def _read_end_txn_response(buf: Buffer, pos: int, version: int) -> tuple[EndTxnResponse, int]:
    flex = version >= 3
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    producer_id: int = -1
    producer_epoch: int = -1
    if version >= 5:
        producer_id, producer_epoch = _fmt_qh.unpack_from(buf, pos)
        pos += 10
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return EndTxnResponse(throttle_time_ms, error_code, producer_id, producer_epoch), pos


def _write_end_txn_response(put: Put, m: EndTxnResponse, version: int) -> None:
    flex = version >= 3
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    if version >= 5:
        put(_fmt_qh.pack(m.producer_id, m.producer_epoch))
    if flex:
        put(b"\0")


decode_request = _read_end_txn_request
encode_request = _write_end_txn_request
decode_response = _read_end_txn_response
encode_response = _write_end_txn_response
