"""AllocateProducerIds: generated from protocol/schemas/allocate_producer_ids.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    skip_tags,
)

_fmt_ihqi = _Struct(">ihqi")
_fmt_iq = _Struct(">iq")

API_KEY = 67

class AllocateProducerIdsRequest(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = -1


def _read_allocate_producer_ids_request(buf: Buffer, pos: int, version: int) -> tuple[AllocateProducerIdsRequest, int]:
    broker_id, broker_epoch = _fmt_iq.unpack_from(buf, pos)
    pos += 12
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AllocateProducerIdsRequest(broker_id, broker_epoch), pos


def _write_allocate_producer_ids_request(put: Put, m: AllocateProducerIdsRequest, version: int) -> None:
    put(_fmt_iq.pack(m.broker_id, m.broker_epoch))
    put(b"\0")


class AllocateProducerIdsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0


def _read_allocate_producer_ids_response(buf: Buffer, pos: int, version: int) -> tuple[AllocateProducerIdsResponse, int]:
    throttle_time_ms, error_code, producer_id_start, producer_id_len = _fmt_ihqi.unpack_from(buf, pos)
    pos += 18
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AllocateProducerIdsResponse(throttle_time_ms, error_code, producer_id_start, producer_id_len), pos


def _write_allocate_producer_ids_response(put: Put, m: AllocateProducerIdsResponse, version: int) -> None:
    put(_fmt_ihqi.pack(m.throttle_time_ms, m.error_code, m.producer_id_start, m.producer_id_len))
    put(b"\0")


decode_request = _read_allocate_producer_ids_request
encode_request = _write_allocate_producer_ids_request
decode_response = _read_allocate_producer_ids_response
encode_response = _write_allocate_producer_ids_response
