"""AddOffsetsToTxn: generated from protocol/schemas/add_offsets_to_txn.schema by protocol.codegen; do not edit."""

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

API_KEY = 25

class AddOffsetsToTxnRequest(msgspec.Struct, gc=False):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


def _read_add_offsets_to_txn_request(buf: Buffer, pos: int, version: int) -> tuple[AddOffsetsToTxnRequest, int]:
    flex = version >= 3
    transactional_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    producer_id, producer_epoch = _fmt_qh.unpack_from(buf, pos)
    pos += 10
    group_id, pos = (read_compact_string if flex else read_string)(buf, pos)
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddOffsetsToTxnRequest(transactional_id, producer_id, producer_epoch, group_id), pos


def _write_add_offsets_to_txn_request(put: Put, m: AddOffsetsToTxnRequest, version: int) -> None:
    flex = version >= 3
    put((compact_string if flex else string)(m.transactional_id))
    put(_fmt_qh.pack(m.producer_id, m.producer_epoch))
    put((compact_string if flex else string)(m.group_id))
    if flex:
        put(b"\0")


class AddOffsetsToTxnResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0


def _read_add_offsets_to_txn_response(buf: Buffer, pos: int, version: int) -> tuple[AddOffsetsToTxnResponse, int]:
    flex = version >= 3
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return AddOffsetsToTxnResponse(throttle_time_ms, error_code), pos


def _write_add_offsets_to_txn_response(put: Put, m: AddOffsetsToTxnResponse, version: int) -> None:
    flex = version >= 3
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    if flex:
        put(b"\0")


decode_request = _read_add_offsets_to_txn_request
encode_request = _write_add_offsets_to_txn_request
decode_response = _read_add_offsets_to_txn_response
encode_response = _write_add_offsets_to_txn_response
