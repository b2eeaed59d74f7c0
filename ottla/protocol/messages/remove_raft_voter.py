"""RemoveRaftVoter: generated from protocol/schemas/remove_raft_voter.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    compact_string,
    read_compact_nullable_string,
    skip_tags,
)

_fmt_iU_ = _Struct(">i16s")
_fmt_ih = _Struct(">ih")

API_KEY = 81

class RemoveRaftVoterRequest(msgspec.Struct, gc=False):
    cluster_id: str | None = ""
    voter_id: int = 0
    voter_directory_id: bytes = NO_UUID


def _read_remove_raft_voter_request(buf: Buffer, pos: int, version: int) -> tuple[RemoveRaftVoterRequest, int]:
    cluster_id, pos = read_compact_nullable_string(buf, pos)
    voter_id, voter_directory_id = _fmt_iU_.unpack_from(buf, pos)
    pos += 20
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RemoveRaftVoterRequest(cluster_id, voter_id, voter_directory_id), pos


def _write_remove_raft_voter_request(put: Put, m: RemoveRaftVoterRequest, version: int) -> None:
    put(compact_string(m.cluster_id))
    put(_fmt_iU_.pack(m.voter_id, m.voter_directory_id))
    put(b"\0")


class RemoveRaftVoterResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_remove_raft_voter_response(buf: Buffer, pos: int, version: int) -> tuple[RemoveRaftVoterResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RemoveRaftVoterResponse(throttle_time_ms, error_code, error_message), pos


def _write_remove_raft_voter_response(put: Put, m: RemoveRaftVoterResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


decode_request = _read_remove_raft_voter_request
encode_request = _write_remove_raft_voter_request
decode_response = _read_remove_raft_voter_response
encode_response = _write_remove_raft_voter_response
