"""UserScramCredentialRecord: generated from protocol/schemas/user_scram_credential_record.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_bytes_length,
    compact_string,
    read_compact_bytes,
    read_compact_string,
    skip_tags,
)

_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")

RECORD_TYPE = 11
MIN_VERSION = 0
MAX_VERSION = 0

class UserScramCredentialRecord(msgspec.Struct, gc=False):
    name: str = ""
    mechanism: int = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0


def _read_user_scram_credential_record(buf: Buffer, pos: int, version: int) -> tuple[UserScramCredentialRecord, int]:
    name, pos = read_compact_string(buf, pos)
    (mechanism,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    salt, pos = read_compact_bytes(buf, pos)
    stored_key, pos = read_compact_bytes(buf, pos)
    server_key, pos = read_compact_bytes(buf, pos)
    (iterations,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UserScramCredentialRecord(name, mechanism, salt, stored_key, server_key, iterations), pos


def _write_user_scram_credential_record(put: Put, m: UserScramCredentialRecord, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_b.pack(m.mechanism))
    put(compact_bytes_length(m.salt))
    put(m.salt)
    put(compact_bytes_length(m.stored_key))
    put(m.stored_key)
    put(compact_bytes_length(m.server_key))
    put(m.server_key)
    put(_fmt_i.pack(m.iterations))
    put(b"\0")


decode = _read_user_scram_credential_record
encode = _write_user_scram_credential_record
