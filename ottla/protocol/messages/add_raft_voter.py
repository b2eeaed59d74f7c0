"""AddRaftVoter: generated from protocol/schemas/add_raft_voter.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_H = _Struct(">H")
_fmt_ih = _Struct(">ih")
_fmt_iiU_ = _Struct(">ii16s")

API_KEY = 80

class Listener(msgspec.Struct, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0


def _read_listener(buf: Buffer, pos: int, version: int) -> tuple[Listener, int]:
    name, pos = read_compact_string(buf, pos)
    host, pos = read_compact_string(buf, pos)
    (port,) = _fmt_H.unpack_from(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Listener(name, host, port), pos


def _write_listener(put: Put, m: Listener, version: int) -> None:
    put(compact_string(m.name))
    put(compact_string(m.host))
    put(_fmt_H.pack(m.port))
    put(b"\0")


class AddRaftVoterRequest(msgspec.Struct, gc=False):
    cluster_id: str | None = ""
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: bytes = NO_UUID
    listeners: list[Listener] = []
    ack_when_committed: bool = True


def _read_add_raft_voter_request(buf: Buffer, pos: int, version: int) -> tuple[AddRaftVoterRequest, int]:
    cluster_id, pos = read_compact_nullable_string(buf, pos)
    timeout_ms, voter_id, voter_directory_id = _fmt_iiU_.unpack_from(buf, pos)
    pos += 24
    _count, pos = read_compact_length(buf, pos)
    listeners: list[Listener] = []
    for _ in range(_count):
        _listeners_item, pos = _read_listener(buf, pos, version)
        listeners.append(_listeners_item)
    ack_when_committed: bool = True
    if version >= 1:
        (ack_when_committed,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AddRaftVoterRequest(cluster_id, timeout_ms, voter_id, voter_directory_id, listeners, ack_when_committed), pos


def _write_add_raft_voter_request(put: Put, m: AddRaftVoterRequest, version: int) -> None:
    put(compact_string(m.cluster_id))
    put(_fmt_iiU_.pack(m.timeout_ms, m.voter_id, m.voter_directory_id))
    put(uvarint(len(m.listeners) + 1))
    for item_listeners in m.listeners:
        _write_listener(put, item_listeners, version)
    if version >= 1:
        put(_fmt_B_.pack(m.ack_when_committed))
    put(b"\0")


class AddRaftVoterResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_add_raft_voter_response(buf: Buffer, pos: int, version: int) -> tuple[AddRaftVoterResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AddRaftVoterResponse(throttle_time_ms, error_code, error_message), pos


def _write_add_raft_voter_response(put: Put, m: AddRaftVoterResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


decode_request = _read_add_raft_voter_request
encode_request = _write_add_raft_voter_request
decode_response = _read_add_raft_voter_response
encode_response = _write_add_raft_voter_response
