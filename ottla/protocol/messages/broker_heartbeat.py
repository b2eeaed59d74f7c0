"""BrokerHeartbeat: generated from protocol/schemas/broker_heartbeat.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.errors import DecodeError
from ottla.protocol.primitives import (
    Buffer,
    Put,
    put_tags,
    read_compact_length,
    read_compact_nullable_length,
    read_tag,
    read_tag_count,
    skip_tags,
    tagged_field,
    uvarint,
)

_fmt_ihB_B_B_ = _Struct(">ih???")
_fmt_iqqB_B_ = _Struct(">iqq??")

API_KEY = 63

class BrokerHeartbeatRequest(msgspec.Struct, gc=False):
    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[bytes] = []
    cordoned_log_dirs: list[bytes] | None = None


def _read_broker_heartbeat_request(buf: Buffer, pos: int, version: int) -> tuple[BrokerHeartbeatRequest, int]:
    broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down = _fmt_iqqB_B_.unpack_from(buf, pos)
    pos += 22
    offline_log_dirs: list[bytes] = []
    cordoned_log_dirs: list[bytes] | None = None
    _tags, pos = read_tag_count(buf, pos)
    for _ in range(_tags):
        _tag, _at, _end = read_tag(buf, pos)
        pos = _at
        if _tag == 0:
            _count, pos = read_compact_length(buf, pos)
            offline_log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
            pos += 16 * _count
        elif _tag == 1:
            _count, pos = read_compact_nullable_length(buf, pos)
            cordoned_log_dirs = None
            if _count >= 0:
                cordoned_log_dirs = [bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)]
                pos += 16 * _count
        else:
            pos = _end
        if pos != _end:
            raise DecodeError("a tagged field of another size than declared")
    return BrokerHeartbeatRequest(broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down, offline_log_dirs, cordoned_log_dirs), pos


def _write_broker_heartbeat_request(put: Put, m: BrokerHeartbeatRequest, version: int) -> None:
    put(_fmt_iqqB_B_.pack(m.broker_id, m.broker_epoch, m.current_metadata_offset, m.want_fence, m.want_shut_down))
    _tags: list[Buffer] = []
    _parts: list[Buffer]
    if version >= 1 and m.offline_log_dirs:
        _parts = []
        _parts.append(uvarint(len(m.offline_log_dirs) + 1))
        for item_offline_log_dirs in m.offline_log_dirs:
            _parts.append(item_offline_log_dirs)
        _tags.append(tagged_field(0, _parts))
    if version >= 2 and m.cordoned_log_dirs is not None:
        _parts = []
        if m.cordoned_log_dirs is None:
            _parts.append(b"\0")
        else:
            _parts.append(uvarint(len(m.cordoned_log_dirs) + 1))
            for item_cordoned_log_dirs in m.cordoned_log_dirs:
                _parts.append(item_cordoned_log_dirs)
        _tags.append(tagged_field(1, _parts))
    put_tags(put, _tags)


class BrokerHeartbeatResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


def _read_broker_heartbeat_response(buf: Buffer, pos: int, version: int) -> tuple[BrokerHeartbeatResponse, int]:
    throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down = _fmt_ihB_B_B_.unpack_from(buf, pos)
    pos += 9
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return BrokerHeartbeatResponse(throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down), pos


def _write_broker_heartbeat_response(put: Put, m: BrokerHeartbeatResponse, version: int) -> None:
    put(_fmt_ihB_B_B_.pack(m.throttle_time_ms, m.error_code, m.is_caught_up, m.is_fenced, m.should_shut_down))
    put(b"\0")


decode_request = _read_broker_heartbeat_request
encode_request = _write_broker_heartbeat_request
decode_response = _read_broker_heartbeat_response
encode_response = _write_broker_heartbeat_response
