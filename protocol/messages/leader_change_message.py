"""LeaderChangeMessage: generated from protocol/schemas/leader_change_message.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from protocol.primitives import (
    Buffer,
    NO_UUID,
    Put,
    read_compact_length,
    skip_tags,
    uvarint,
)

_fmt_U_ = _Struct(">16s")
_fmt_hi = _Struct(">hi")
_fmt_i = _Struct(">i")

RECORD_TYPE = -1
MIN_VERSION = 0
MAX_VERSION = 1

class Voter(msgspec.Struct, gc=False):
    voter_id: int = 0
    voter_directory_id: bytes = NO_UUID


def _read_voter(buf: Buffer, pos: int, version: int) -> tuple[Voter, int]:
    (voter_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    voter_directory_id: bytes = NO_UUID
    if version >= 1:
        (voter_directory_id,) = _fmt_U_.unpack_from(buf, pos)
        pos += 16
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return Voter(voter_id, voter_directory_id), pos


def _write_voter(put: Put, m: Voter, version: int) -> None:
    put(_fmt_i.pack(m.voter_id))
    if version >= 1:
        put(_fmt_U_.pack(m.voter_directory_id))
    put(b"\0")


class LeaderChangeMessage(msgspec.Struct, gc=False):
    version: int = 0
    leader_id: int = 0
    voters: list[Voter] = []
    granting_voters: list[Voter] = []


def _read_leader_change_message(buf: Buffer, pos: int, version: int) -> tuple[LeaderChangeMessage, int]:
    version, leader_id = _fmt_hi.unpack_from(buf, pos)
    pos += 6
    count, pos = read_compact_length(buf, pos)
    voters: list[Voter] = []
    for _ in range(count):
        _voters_item, pos = _read_voter(buf, pos, version)
        voters.append(_voters_item)
    count, pos = read_compact_length(buf, pos)
    granting_voters: list[Voter] = []
    for _ in range(count):
        _granting_voters_item, pos = _read_voter(buf, pos, version)
        granting_voters.append(_granting_voters_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return LeaderChangeMessage(version, leader_id, voters, granting_voters), pos


def _write_leader_change_message(put: Put, m: LeaderChangeMessage, version: int) -> None:
    put(_fmt_hi.pack(m.version, m.leader_id))
    put(uvarint(len(m.voters) + 1))
    for item_voters in m.voters:
        _write_voter(put, item_voters, version)
    put(uvarint(len(m.granting_voters) + 1))
    for item_granting_voters in m.granting_voters:
        _write_voter(put, item_granting_voters, version)
    put(b"\0")


decode = _read_leader_change_message
encode = _write_leader_change_message
