"""DelegationTokenRecord: generated from protocol/schemas/delegation_token_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_qqq = _Struct(">qqq")

RECORD_TYPE = 10
MIN_VERSION = 0
MAX_VERSION = 0

class DelegationTokenRecord(msgspec.Struct, gc=False):
    owner: str = ""
    requester: str = ""
    renewers: list[str] = []
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ""


def _read_delegation_token_record(buf: Buffer, pos: int, version: int) -> tuple[DelegationTokenRecord, int]:
    owner, pos = read_compact_string(buf, pos)
    requester, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    renewers: list[str] = []
    for _ in range(_count):
        _renewers_item, pos = read_compact_string(buf, pos)
        renewers.append(_renewers_item)
    issue_timestamp, max_timestamp, expiration_timestamp = _fmt_qqq.unpack_from(buf, pos)
    pos += 24
    token_id, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DelegationTokenRecord(owner, requester, renewers, issue_timestamp, max_timestamp, expiration_timestamp, token_id), pos


def _write_delegation_token_record(put: Put, m: DelegationTokenRecord, version: int) -> None:
    put(compact_string(m.owner))
    put(compact_string(m.requester))
    put(uvarint(len(m.renewers) + 1))
    for item_renewers in m.renewers:
        put(compact_string(item_renewers))
    put(_fmt_qqq.pack(m.issue_timestamp, m.max_timestamp, m.expiration_timestamp))
    put(compact_string(m.token_id))
    put(b"\0")


decode = _read_delegation_token_record
encode = _write_delegation_token_record
