"""InitProducerId: generated from protocol/schemas/init_producer_id.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_nullable_string,
    read_nullable_string,
    skip_tags,
    string,
)

_fmt_B_B_ = _Struct(">??")
_fmt_i = _Struct(">i")
_fmt_ihqh = _Struct(">ihqh")
_fmt_qh = _Struct(">qh")

API_KEY = 22

class InitProducerIdRequest(msgspec.Struct, gc=False):
    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


def _read_init_producer_id_request(buf: Buffer, pos: int, version: int) -> tuple[InitProducerIdRequest, int]:
    flex = version >= 2
    transactional_id, pos = (read_compact_nullable_string if flex else read_nullable_string)(buf, pos)
    (transaction_timeout_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    producer_id: int = -1
    producer_epoch: int = -1
    if version >= 3:
        producer_id, producer_epoch = _fmt_qh.unpack_from(buf, pos)
        pos += 10
    enable2_pc: bool = False
    keep_prepared_txn: bool = False
    if version >= 6:
        enable2_pc, keep_prepared_txn = _fmt_B_B_.unpack_from(buf, pos)
        pos += 2
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return InitProducerIdRequest(transactional_id, transaction_timeout_ms, producer_id, producer_epoch, enable2_pc, keep_prepared_txn), pos


def _write_init_producer_id_request(put: Put, m: InitProducerIdRequest, version: int) -> None:
    flex = version >= 2
    put((compact_string if flex else string)(m.transactional_id))
    put(_fmt_i.pack(m.transaction_timeout_ms))
    if version >= 3:
        put(_fmt_qh.pack(m.producer_id, m.producer_epoch))
    if version >= 6:
        put(_fmt_B_B_.pack(m.enable2_pc, m.keep_prepared_txn))
    if flex:
        put(b"\0")


class InitProducerIdResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


def _read_init_producer_id_response(buf: Buffer, pos: int, version: int) -> tuple[InitProducerIdResponse, int]:
    flex = version >= 2
    throttle_time_ms, error_code, producer_id, producer_epoch = _fmt_ihqh.unpack_from(buf, pos)
    pos += 16
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
    if version >= 6:
        ongoing_txn_producer_id, ongoing_txn_producer_epoch = _fmt_qh.unpack_from(buf, pos)
        pos += 10
    if flex:
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
    return InitProducerIdResponse(throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch), pos


def _write_init_producer_id_response(put: Put, m: InitProducerIdResponse, version: int) -> None:
    flex = version >= 2
    put(_fmt_ihqh.pack(m.throttle_time_ms, m.error_code, m.producer_id, m.producer_epoch))
    if version >= 6:
        put(_fmt_qh.pack(m.ongoing_txn_producer_id, m.ongoing_txn_producer_epoch))
    if flex:
        put(b"\0")


decode_request = _read_init_producer_id_request
encode_request = _write_init_producer_id_request
decode_response = _read_init_producer_id_response
encode_response = _write_init_producer_id_response
