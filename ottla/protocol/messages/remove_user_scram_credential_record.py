"""RemoveUserScramCredentialRecord: generated from protocol/schemas/remove_user_scram_credential_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_string,
    skip_tags,
)

_fmt_b = _Struct(">b")

RECORD_TYPE = 22
MIN_VERSION = 0
MAX_VERSION = 0

class RemoveUserScramCredentialRecord(msgspec.Struct, gc=False):
    name: str = ""
    mechanism: int = 0


def _read_remove_user_scram_credential_record(buf: Buffer, pos: int, version: int) -> tuple[RemoveUserScramCredentialRecord, int]:
    name, pos = read_compact_string(buf, pos)
    (mechanism,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return RemoveUserScramCredentialRecord(name, mechanism), pos


def _write_remove_user_scram_credential_record(put: Put, m: RemoveUserScramCredentialRecord, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_b.pack(m.mechanism))
    put(b"\0")


decode = _read_remove_user_scram_credential_record
encode = _write_remove_user_scram_credential_record
