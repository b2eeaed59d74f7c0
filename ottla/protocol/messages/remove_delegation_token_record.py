"""RemoveDelegationTokenRecord: generated from protocol/schemas/remove_delegation_token_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_string,
    skip_tags,
)


RECORD_TYPE = 26
MIN_VERSION = 0
MAX_VERSION = 0

class RemoveDelegationTokenRecord(msgspec.Struct, gc=False):
    token_id: str = ""


def _read_remove_delegation_token_record(buf: Buffer, pos: int, version: int) -> tuple[RemoveDelegationTokenRecord, int]:
    token_id, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RemoveDelegationTokenRecord(token_id), pos


def _write_remove_delegation_token_record(put: Put, m: RemoveDelegationTokenRecord, version: int) -> None:
    put(compact_string(m.token_id))
    put(b"\0")


decode = _read_remove_delegation_token_record
encode = _write_remove_delegation_token_record
